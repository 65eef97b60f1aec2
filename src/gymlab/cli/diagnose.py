"""`gymlab diagnose`: what is wrong with a run, and what to change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from gymlab.cli.options import Json, RunArgument, print_json

if TYPE_CHECKING:
    from gymlab.diagnosis.examine import Diagnosis
    from gymlab.session.failures import ReplayRecord


class AppliedRemedy(TypedDict):
    """A remedy that was written to a recipe file."""

    finding: str
    path: str
    variant: str
    changes: list[list[object]]  # key, before, after
    train: str


def diagnose(
    run: RunArgument = "@last",
    replay: Annotated[bool, typer.Option("--replay", help="Make the bad update again, twice, and compare.")] = False,
    bundle: Annotated[bool, typer.Option("--bundle", help="Write all that is known to RUN/diagnosis.md.")] = False,
    output: Annotated[Path | None, typer.Option("--output", metavar="FILE", help="The same, to this file.")] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Write the first advice to ./recipes/advice/.")] = False,
    json: Json = False,
) -> None:
    """Show what is wrong with a run: findings by weight, each with its evidence and what to change.

    Example: gymlab diagnose @last --apply
    """
    from gymlab.diagnosis import examine as experiment
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.runs.selection import select_run

    paths = select_run(run, runs_folder())
    found = experiment.examine(paths)
    replayed = _replay(found) if replay else None
    facts = {**_facts(found), **experiment.as_json(found), "replay": replayed}
    written = _bundle(found, output) if bundle or output is not None else None
    applied = _apply(found) if apply else None
    facts |= {"bundle": None if written is None else str(written), "applied": applied}
    if json:
        print_json(facts)
        return
    from gymlab.diagnosis.page import diagnosis_lines
    from gymlab.runs.logs import strip_escapes

    lines = diagnosis_lines(found, replayed)
    if written is not None:
        lines.insert(-1, f"bundle for a person or a model: {written}")
    if applied is not None:
        lines[-1:] = _applied(applied)
    for line in lines:
        typer.echo(strip_escapes(line))


def _facts(found: Diagnosis) -> dict[str, object]:
    facts = found.facts
    fault = found.fault
    newest = dict(facts.measured.last)
    passed = fault is not None and newest.get("updates", 0) >= fault.report["update"]
    return {
        "run_id": facts.run_id,
        "status": facts.status.get("status"),
        "stop_reason": facts.status.get("stop_reason"),
        "checkpoints": {"last": facts.checkpoints["last"], "best": facts.checkpoints["best"]},
        "metrics": newest,
        "skipped_updates": int(newest.get("sys/skipped_updates", 0)),
        "fault": fault and {**fault.report, "bundle": str(fault.path), "passed": passed},
        "faults": found.faults,
    }


def _replay(found: Diagnosis) -> ReplayRecord:
    from gymlab.core.errors import UserError

    if found.fault is None:
        raise UserError(f"run '{found.facts.run_id}' has no fault to replay")
    from gymlab.session.failures import replay as make_again

    return make_again(found.fault).as_json()


def _bundle(found: Diagnosis, output: Path | None) -> Path:
    from gymlab.core.errors import UserError
    from gymlab.diagnosis.llm_prompt import FILE, diagnosis_prompt
    from gymlab.runs import files

    paths = found.facts.paths
    target = output or paths.inside(paths.root / FILE)
    try:
        files.write_text(target, diagnosis_prompt(found))
    except OSError as error:
        raise UserError(f"cannot write '{target}' ({error.strerror}): name another file with --output") from error
    return target


def _apply(found: Diagnosis) -> AppliedRemedy:
    from gymlab.core.errors import UserError
    from gymlab.diagnosis.remedy import write_remedy
    from gymlab.recipes.resolve import read_run_recipe
    from gymlab.runs.status import now

    facts = found.facts
    finding = found.remedy
    if finding is None:
        reason = "it is solved" if found.solved else "no finding says what to set"
        raise UserError(f"run '{facts.run_id}': nothing to apply, {reason}")
    provenance = f"run {facts.run_id}, {now()[:10]}, {finding.id}: {finding.evidence}"
    recipe = read_run_recipe(facts.paths.inside(facts.paths.recipe))
    remedy = write_remedy(recipe, finding.overrides, provenance)
    seed = facts.manifest.get("seed")
    return {
        "finding": finding.id,
        "path": str(remedy.path),
        "variant": remedy.variant,
        "changes": [list(change) for change in remedy.changes],
        "train": f"gymlab train {remedy.reference}" + (f" --seed {seed}" if isinstance(seed, int) else ""),
    }


def _applied(applied: AppliedRemedy) -> list[str]:
    from gymlab.reports.sections import printable

    changes = [f"  {key}: {printable(old)} → {printable(new)}" for key, old, new in applied["changes"]]
    head = f"applied {applied['finding']}: variant {applied['variant']} in {applied['path']}"
    return [head, *changes, f"next: {applied['train']}"]
