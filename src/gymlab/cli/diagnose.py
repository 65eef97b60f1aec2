"""`gymlab diagnose`: what is wrong with a run, and what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from gymlab.runs.bundle import Bundle
    from gymlab.runs.paths import RunPaths

_ROW = ("updates", "env_steps", "roll/return_mean", "opt/loss", "opt/grad_norm", "opt/approx_kl", "hp/learning_rate")


def diagnose(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Id, unique beginning, path or @last.")] = "@last",
    replay: Annotated[bool, typer.Option("--replay", help="Make the bad update again, twice, and compare.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what went wrong in a run: its end, the numbers that went bad, likely causes and what to change.

    Example: gymlab diagnose @last --replay
    """
    from gymlab.core.errors import UserError
    from gymlab.recipes.settings_file import runs_folder
    from gymlab.runs.bundle import bundles, read_bundle
    from gymlab.runs.files import strict_json
    from gymlab.runs.select import select_run

    paths = select_run(run, runs_folder())
    found = bundles(paths)
    bundle = read_bundle(found[0]) if found else None
    facts = _facts(paths, bundle) | {"faults": [int(path.name) for path in found], "replay": None}
    if replay:
        if bundle is None:
            raise UserError(f"run '{paths.run_id}' has no fault to replay")
        from gymlab.experiment.faults import replay as make_again

        facts["replay"] = make_again(bundle)._asdict()
    if as_json:
        typer.echo(strict_json(facts))
        return
    from gymlab.runs.logs import plain

    for line in _lines(facts):
        typer.echo(plain(line))


def _facts(paths: RunPaths, bundle: Bundle | None) -> dict[str, Any]:
    from gymlab.core.errors import RunError
    from gymlab.runs.checkpoints import read_index
    from gymlab.runs.metrics import MetricsReader
    from gymlab.runs.status import read_status

    status = read_status(paths)
    try:
        with MetricsReader(paths.metrics) as reader:
            newest = reader.last()
    except RunError:
        newest = {}
    index = read_index(paths)
    return {
        "run_id": paths.run_id,
        "status": status.get("status"),
        "stop_reason": status.get("stop_reason"),
        "checkpoints": {"last": index["last"], "best": index["best"]},
        "metrics": newest,
        "skipped_updates": int(newest.get("sys/skipped_updates", 0)),
        "fault": bundle and {**bundle.report, "bundle": str(bundle.path), "passed": _passed(bundle, newest)},
    }


def _passed(bundle: Bundle, newest: dict[str, float]) -> bool:
    """Whether the run has since gone beyond the update that went bad."""
    return newest.get("updates", 0) >= bundle.report["update"]


def _lines(facts: dict[str, Any]) -> list[str]:
    fault, row = facts["fault"], facts["metrics"]
    shown = "  ".join(f"{name} {row[name]:.6g}" for name in _ROW if name in row)
    reason = str(facts["stop_reason"] or "no reason given")
    told = fault is not None and fault["told"] in reason  # then it follows below
    lines = [
        f"{facts['run_id']}: {facts['status']}" + ("" if told else f", {reason}"),
        f"last row: {shown or 'none'}",
        f"last checkpoint: {facts['checkpoints']['last'] or 'none'}, best: {facts['checkpoints']['best'] or 'none'}",
    ]
    if facts["skipped_updates"]:
        lines.append(f"skipped updates: {facts['skipped_updates']}")
    if fault is None:
        return [*lines, "no numbers went bad in this run"]
    lines += ["", f"fault in update {fault['update']} ({fault['env_steps']} env_steps): {fault['told']}"]
    if fault["passed"]:
        lines.append("the run has since gone past it")
    lines += _table([tensor for tensor in fault["tensors"] if isinstance(tensor, dict)])
    lines += ["what to try:", *(f"  {text}" for text in fault["advice"])]
    if facts["replay"] is not None:
        lines.append(f"replay: {facts['replay']['told']}")
    lines.append(f"bundle: {fault['bundle']}")
    again = "" if facts["replay"] else f"gymlab diagnose {facts['run_id']} --replay, "
    return [*lines, f"next: {again}gymlab resume {facts['run_id']} key=value"]


def _table(tensors: list[dict[str, Any]]) -> list[str]:
    """The float tensors and their statistics, bad ones first and marked."""
    floats = [tensor for tensor in tensors if str(tensor.get("dtype", "")).startswith("float")]
    floats.sort(key=lambda tensor: not _bad(tensor))
    width = max((len(str(tensor.get("name"))) for tensor in floats), default=0)
    head = f"  {'tensor':{width}}  {'shape':>14} {'min':>12} {'max':>12} {'NaN':>7} {'inf':>7}"
    rows = [
        f"{'!' if _bad(tensor) else ' '} {tensor.get('name')!s:{width}}  {_size(tensor):>14} "
        f"{_number(tensor.get('min')):>12} {_number(tensor.get('max')):>12} "
        f"{tensor.get('nan')!s:>7} {tensor.get('inf')!s:>7}"
        for tensor in floats
    ]
    return [head, *rows]


def _bad(tensor: dict[str, Any]) -> bool:
    return bool(tensor.get("nan") or tensor.get("inf"))


def _size(tensor: dict[str, Any]) -> str:
    shape = tensor.get("shape")
    return "x".join(map(str, shape)) if isinstance(shape, list) and shape else "1"


def _number(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, int | float) else "-"
