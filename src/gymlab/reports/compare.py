"""Comparison of several runs: differing settings, results and scores, and their curves in one plot."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, TypedDict

from gymlab.core.errors import UserError, suggestion
from gymlab.core.format import format_count, format_duration
from gymlab.core.types import Json
from gymlab.metrics.catalogue import metric, written
from gymlab.reports import sections
from gymlab.reports.run_facts import Facts
from gymlab.reports.scoring import auc
from gymlab.reports.sections import ResultData, printable
from gymlab.runs.metrics_reader import Curve, smooth_curve
from gymlab.terminal.plots import LETTERS, PlotFrame, PlotLine, plot


class ComparisonData(TypedDict):
    """A comparison as JSON; `runs` have the keys of `ResultData` and of the score."""

    horizon: int
    runs: list[dict[str, Any]]
    settings: dict[str, dict[str, Json]]  # values by run
    metric: str
    curves: dict[str, sections.CurveData]
    notes: list[str]


def horizon(runs: Sequence[Facts]) -> int:
    """The env steps over which all runs have a score: that of the shortest."""
    return min(run.score.horizon for run in runs)


def ranked(runs: Sequence[Facts]) -> list[tuple[Facts, float | None]]:
    """Runs with their score over the common horizon, best first; runs without a score last."""
    over = horizon(runs)
    scored = [(run, auc(run.measured.evaluations, over)) for run in runs]
    return sorted(scored, key=lambda pair: (pair[1] is None, -(pair[1] or 0.0)))


def settings_diff(runs: Sequence[Facts]) -> dict[str, list[Json]]:
    """Settings that differ between the runs, the seed included, with each run's value (None: it has none).

    Keys of an algorithm's block are listed without the algorithm's name, so that algorithms can be compared.
    """
    each = [_comparable(run) for run in runs]
    keys = dict.fromkeys(key for values in each for key in values)
    rows = {key: [values.get(key) for values in each] for key in keys}
    return {key: values for key, values in rows.items() if any(value != values[0] for value in values)}


def _comparable(run: Facts) -> dict[str, Json]:
    algorithm = str(run.manifest.get("algorithm"))
    values = {key: value for key, value in run.settings.items() if key not in sections.LABELS}
    plain = {key.removeprefix(f"{algorithm}."): value for key, value in values.items()}
    return {"seed": run.manifest.get("seed"), "algorithm": algorithm, **plain}


def notes(runs: Sequence[Facts]) -> list[str]:
    """Reasons why the runs may not be comparable."""
    envs = dict.fromkeys(printable(run.settings.get("env.id")) for run in runs)
    lines = [f"different envs ({', '.join(envs)}): their returns do not compare"] if len(envs) > 1 else []
    if len({run.score.horizon for run in runs}) > 1:
        lines.append(f"different budgets: scores are over the first {format_count(horizon(runs))} env_steps")
    waiting = [run.run_id for run in runs if run.status.get("status") == "running"]
    lines += [f"still running: {', '.join(waiting)}"] if waiting else []
    compiled = [run.run_id for run in runs if run.summary.get("eval_source") == "compiled"]
    return lines + ([f"last evaluated on the compiled engine: {', '.join(compiled)}"] if compiled else [])


def table(runs: Sequence[Facts]) -> list[str]:
    """The runs, best first."""
    letters = {run.run_id: letter for run, letter in zip(runs, LETTERS, strict=False)}
    rows: list[tuple[str, ...]] = [
        ("", "run", "score/auc", "to threshold", "solved", "greedy", "sampled", "env_steps", "time", "steps/s")
    ]
    for run, area in ranked(runs):
        data = sections.result_data(run)
        reached = run.score.steps_to_threshold
        seconds = data["seconds"]
        done = data["env_steps"]
        rows.append(
            (
                letters.get(run.run_id, ""),
                run.run_id,
                "-" if area is None else written("score/auc", area),
                "-" if reached is None else format_count(reached),
                sections.yes_or_no(data["solved"], "-"),
                *(_mean(data, mode) for mode in ("greedy", "sampled")),
                format_count(done) if isinstance(done, int | float) else "-",
                *(format_pace(done, seconds)),
            )
        )
    return sections.columns(rows, right=range(2, 10))


def settings_table(runs: Sequence[Facts]) -> list[str]:
    """What differs, one row per setting and one column per run."""
    differing = settings_diff(runs)
    if not differing:
        return ["(the settings are the same)"]
    head = ("setting", *(run.run_id for run in runs))
    return sections.columns([head, *((printable(key), *map(_brief, values)) for key, values in differing.items())])


def overlay(runs: Sequence[Facts], name: str, smooth: float = 0.0, frame: PlotFrame | None = None) -> list[str]:
    """One metric of all runs in one plot."""
    curves = [smooth_curve(curve_of(run, name), smooth) for run in runs]
    goals = {run.solved_at for run in runs}
    goal = goals.pop() if len(goals) == 1 and metric(name).bounds == "return" else None
    frame = frame or PlotFrame(width=72, height=16, axis=curves[0].axis, threshold=goal)
    lines = [PlotLine(label(run, runs), curve.x, curve.y) for run, curve in zip(runs, curves, strict=True)]
    return [*textwrap.wrap(f"{name}: {metric(name).help}", 100), *plot(lines, frame)]


def curve_of(run: Facts, name: str) -> Curve:
    """A run's curve of a metric; UserError if it was never measured."""
    curve = run.measured.curves.get(name)
    if curve is None or (not len(curve) and name not in run.measured.names):
        raise UserError(f"run '{run.run_id}' has no metric '{name}': {suggestion(name, run.measured.names)}")
    return curve


def label(run: Facts, among: Sequence[Facts]) -> str:
    """A run's id, with the number of envs where runs differ in it."""
    differ = len({printable(other.settings.get("n_envs")) for other in among}) > 1
    return f"{run.run_id} ({printable(run.settings.get('n_envs'))} envs)" if differ else run.run_id


def page(runs: Sequence[Facts], name: str, smooth: float = 0.0) -> list[str]:
    """The whole comparison as text."""
    return [
        *table(runs),
        *(f"note: {note}" for note in notes(runs)),
        "",
        *settings_table(runs),
        "",
        *overlay(runs, name, smooth),
    ]


def format_pace(env_steps: float | None, seconds: float | None) -> tuple[str, str]:
    """The time of a run and its env steps per second, where both are known."""
    if not isinstance(env_steps, int | float) or not isinstance(seconds, int | float) or seconds <= 0:
        return "-", "-"
    return format_duration(seconds), format_count(env_steps / seconds)


def data(runs: Sequence[Facts], name: str) -> ComparisonData:
    """The comparison as JSON data, best run first."""
    return {
        "horizon": horizon(runs),
        "runs": [
            {
                "run_id": run.run_id,
                "name": run.name,
                **sections.result_data(run),
                **run.score.as_json(),
                "score/auc": area,
            }
            for run, area in ranked(runs)
        ],
        "settings": {
            key: dict(zip([run.run_id for run in runs], values, strict=True))
            for key, values in settings_diff(runs).items()
        },
        "metric": name,
        "curves": {run.run_id: sections.curve_data(curve_of(run, name)) for run in runs},
        "notes": notes(runs),
    }


def _mean(result: ResultData, mode: str) -> str:
    part = (result["eval"] or {}).get(mode)
    value = part.get("mean") if isinstance(part, dict) else None
    return f"{value:.2f}" if isinstance(value, int | float) else "-"


def _brief(value: Json, most: int = 40) -> str:
    text = "-" if value is None else printable(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."
