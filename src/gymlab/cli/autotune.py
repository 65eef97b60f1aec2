"""`gymlab autotune`: searches for better settings within a time, and tests the result on fresh seeds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gymlab.cli.options import (
    DrawSeed,
    JsonAtEnd,
    OverridesArgument,
    Quiet,
    RecipeArgument,
    Workers,
    output_mode,
    print_json,
)
from gymlab.core.errors import UserError
from gymlab.session.run_guard import guard_command

if TYPE_CHECKING:
    from gymlab.campaigns.autotune.state import AutotuneState
    from gymlab.campaigns.comparison import Comparison

_TIME = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")


def autotune(
    recipe: RecipeArgument,
    overrides: OverridesArgument = None,
    budget: Annotated[
        str, typer.Option(metavar="TIME", help="How long all of it may take, e.g. 20m or 1h30m.")
    ] = "20m",
    seed: DrawSeed = 0,
    name: Annotated[str | None, typer.Option(help="Default: tune- and the recipe's name.")] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write the tuned recipe though no improvement was shown.")
    ] = False,
    env_steps: Annotated[int | None, typer.Option(min=1, help="Of each run; default: what fits into the time.")] = None,
    trials: Annotated[int | None, typer.Option(min=9, help="Of the search; default: what fits.")] = None,
    fresh: Annotated[int | None, typer.Option(min=3, help="Seeds a side to confirm with; default: what fits.")] = None,
    variant: Annotated[str, typer.Option("--as", help="The tuned variant's name.")] = "tuned",
    workers: Workers = None,
    quiet: Quiet = False,
    json: JsonAtEnd = False,
) -> None:
    """Search for better settings, then compare them with the recipe's own on seeds that were not used before.

    Trials with a critical alert are pruned. The verdict is `better` only if the 95 % interval of the difference lies
    above zero. The same command resumes an interrupted autotune. With --env-steps and --trials, which the end of every
    autotune names, time plays no part and the same is found again.

    Example: gymlab autotune Acrobot-v1:ppo --budget 20m
    """
    from gymlab.campaigns.autotune.state import AutotuneState, resume_state
    from gymlab.campaigns.sweep.sampler import import_optuna
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.runs.platform import usable_cores

    import_optuna()
    root = runs_folder()
    requested = AutotuneState(
        name=name or _name(recipe),
        reference=recipe,
        overrides=tuple(overrides or ()),
        seconds=parse_seconds(budget),
        seed=seed,
        workers=workers or usable_cores(),
        requested=(env_steps, trials, fresh),
    )
    state = _tune(root, resume_state(root, requested), output_mode(quiet=quiet, json=json))
    state = _write_tuned(root, state, variant, write=write)
    if json:
        print_json(state.as_json() | {"commands": _commands(state)})
    elif not quiet:
        typer.echo("\n".join(_lines(state)))


def parse_seconds(text: str) -> float:
    """Seconds of a time such as `20m`, `90s` or `1h30m`."""
    match = _TIME.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        raise UserError(f"--budget {text[:40]!r}: a time, e.g. 20m, 90s or 1h30m")
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds


def _name(recipe: str) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", Path(recipe).name.lower()).strip("-")
    return f"tune-{slug}"[:33]


def _tune(root: Path, state: AutotuneState, output: str) -> AutotuneState:
    from gymlab.campaigns.autotune.search import fresh_seeds
    from gymlab.campaigns.autotune.stages import AutotuneInterrupted, Stages
    from gymlab.campaigns.autotune.state import write_state
    from gymlab.cli.detach import typed_command

    def say(text: str) -> None:
        if output != "quiet":
            typer.echo(text, err=True)

    stages = Stages(root, state, output, say)
    with guard_command("before tuning began"):
        try:
            state = stages.run(typed_command())
        except AutotuneInterrupted as ended:
            say(f"interrupted, nothing is lost: the same command resumes (sweep {state.name})")
            raise typer.Exit(ended.exit_code) from None
    if state.stage == "confirm" and not state.fresh:
        state = write_state(root, state.model_copy(update={"fresh": fresh_seeds(state, stages.spent)}))
    if state.stage == "confirm":
        result = _confirm(root, state, say) if state.chosen else None
        update = {"stage": "done", "result": result, "spent": stages.spent}
        state = write_state(root, state.model_copy(update=update))
    return state


def _confirm(root: Path, state: AutotuneState, say: Any) -> dict[str, Any]:
    """Compare the tuned settings with the recipe on fresh seeds and episodes, with the same budget."""
    from gymlab.campaigns import comparison
    from gymlab.campaigns.autotune.search import RUN_OVERRIDES
    from gymlab.campaigns.benchmark_table.record import known_record
    from gymlab.campaigns.benchmark_table.seeded_recipe import seed_recipe
    from gymlab.campaigns.scored_runs import ScoredRun
    from gymlab.cli.progress import run_jobs
    from gymlab.core.errors import RunError
    from gymlab.runs.paths import run_paths

    say(f"confirming on {len(state.fresh)} fresh seeds a side: {' '.join(state.chosen or ())}")
    sides: list[tuple[str, list[ScoredRun]]] = []
    for label, more in (("recipe", ()), ("tuned", state.chosen or ())):
        every = seed_recipe(
            state.reference,
            [*state.overrides, *more, *RUN_OVERRIDES],
            state.fresh,
            budget=state.budget,
            full_budget=True,
        )
        sides.append((label, [ScoredRun(run_paths(root, trial.run_id), trial, 100, state.name) for trial in every]))
    todo = [
        job for pair in zip(*(jobs for _, jobs in sides), strict=True) for job in pair if job.next_phase() is not None
    ]
    failed = [o for o in run_jobs(todo, state.workers, root, "the same command") if not o.record]
    if failed:
        raise RunError(f"no result of {failed[0].run.title}: {failed[0].error[-300:]}")
    both = [
        comparison.Side(label, tuple(r for job in jobs if (r := known_record(job.paths, 100)))) for label, jobs in sides
    ]
    return _result(comparison.compare(both[0], both[1]))


def _result(found: Comparison) -> dict[str, Any]:
    from gymlab.campaigns import comparison

    better = found.score.significant and found.score.gain.low > 0
    worse = found.score.significant and found.score.gain.high < 0
    return {
        "verdict": "better" if better else "worse" if worse else "no improvement shown",
        "message": comparison.verdict(found.score, "the recipe", "the tuned one"),
        "score": found.score.as_json(),
        "runs": {side.label: [record.run_id for record in side.records] for side in (found.a, found.b)},
    }


def _write_tuned(root: Path, state: AutotuneState, variant: str, *, write: bool) -> AutotuneState:
    """Write the tuned variant if it is better, or if --write asks for it."""
    from gymlab.campaigns.autotune.state import write_state
    from gymlab.campaigns.sweep.best import write_variant

    better = state.result is not None and state.result["verdict"] == "better"
    if state.written is not None or not state.chosen or not (better or write):
        return state
    overrides = [*state.overrides, f"budget={state.budget}", *state.chosen]
    provenance = [
        f"autotune {state.name} ({state.created[:10]}) of {state.reference}, {state.trials} trials",
        state.result["message"] if state.result else "not confirmed",
        f"changed: {' '.join(state.chosen)}",
    ]
    path = write_variant(state.reference, overrides, variant, provenance, force=True)
    return write_state(root, state.model_copy(update={"written": str(path)}))


def _commands(state: AutotuneState) -> list[str]:
    """Commands that reproduce the search and the comparison."""
    import shlex

    from gymlab.campaigns.autotune.search import RUN_OVERRIDES

    seeds = f"{state.fresh[0]}..{state.fresh[-1]}" if state.fresh else "9000..9004"
    base = " ".join([state.reference, *state.overrides])
    fixed = [
        "--env-steps",
        state.env_steps,
        "--trials",
        state.trials,
        "--fresh",
        len(state.fresh),
        "--seed",
        state.seed,
    ]
    options = ["--budget", f"{state.seconds:g}s", *map(str, fixed), "--name", "again"]
    again = ["gymlab", "autotune", state.reference, *state.overrides, *options]
    tuned = " ".join([base, *(state.chosen or ())])
    quiet = [word for text in RUN_OVERRIDES for word in ("--set", text)]
    compare = ["gymlab", "compare", base, tuned, "--seeds", seeds, "--budget", state.budget, *quiet]
    return [shlex.join(again), *([shlex.join(compare)] if state.chosen else [])]


def _lines(state: AutotuneState) -> list[str]:
    minutes = f"{state.spent / 60:.1f} minutes, runs of {state.env_steps:,} env_steps"
    if not state.chosen:
        return [f"no improvement shown: no trial did better than the recipe ({minutes})"]
    assert state.result is not None
    score = state.result["score"]
    rows = [
        f"{label:<8} {score[side]['value']:.4g} [{score[side]['low']:.4g}, {score[side]['high']:.4g}]"
        for label, side in (("recipe", "a"), ("tuned", "b"))
    ]
    written = [f"written: {state.written}"] if state.written else ["--write writes it all the same"]
    cut = ["the search was cut short by the time"] if state.cut else []
    return [
        f"{state.result['verdict']}: {state.result['message']}",
        *rows,
        f"tuned: {' '.join(state.chosen)}",
        f"{len(state.fresh)} fresh seeds a side, {minutes}",
        *cut,
        *written,
        *(f"again: {command}" for command in _commands(state)),
    ]
