"""Tools that read what runs have left: lists, pages, curves, alerts, logs. Nothing is changed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from gymlab.core.errors import UserError, suggestion
from gymlab.mcp.answers import (
    Alerts,
    AlertShown,
    Compared,
    Comparison,
    Entries,
    Entry,
    Log,
    Metrics,
    Report,
    RunShown,
    Series,
)
from gymlab.mcp.arguments import Limit, Offset, Run
from gymlab.mcp.config import Lab
from gymlab.mcp.run_status import facts_of, number, standing
from gymlab.mcp.tools_catalogue import paged
from gymlab.metrics.catalogue import headlines, metric
from gymlab.recipes.keys import default_settings
from gymlab.reports import compare as comparison
from gymlab.reports import sections
from gymlab.reports.run_facts import Facts
from gymlab.runs.metrics_reader import Curve
from gymlab.runs.redact import redact, redact_tree
from gymlab.runs.registry import Registry
from gymlab.terminal.plots import PlotFrame, PlotLine, plot

Axis = Literal["env_steps", "vec_steps", "updates", "seconds"]
_SMALL = PlotFrame(width=48, height=8, axis="env_steps")
_LOG_WIDTH = 300
_DEFAULT_PARTS = ("Result", "Score", "Alerts", "Reproduction")


def list_runs(
    lab: Lab,
    env: Annotated[str | None, Field(max_length=100)] = None,
    status: Literal["running", "finished", "stopped", "crashed", "failed"] | None = None,
    tag: Annotated[str | None, Field(max_length=64)] = None,
    group: Annotated[str | None, Field(max_length=64)] = None,
    limit: Limit = 10,
    offset: Offset = 0,
) -> Entries:
    """List runs, newest first. What still waits to start is in queue."""
    wanted = {"env": env, "status": status, "group": group}
    asked = {key: value for key, value in wanted.items() if value is not None}
    found = [
        run
        for run in Registry(lab.root).runs()
        if all(run.get(key) == value for key, value in asked.items()) and (tag is None or tag in run["tags"])
    ]
    page, following = paged(found, limit, offset)
    return Entries(runs=[_entry(run) for run in page], total=len(found), next_offset=following)


def _entry(run: dict[str, Any]) -> Entry:
    plain = ("seed", "status", "env_steps", "solved", "group", "tags")
    return Entry(
        run_id=run["id"],
        recipe=run.get("name"),
        best_return=number(run.get("best_return")),
        created=str(run.get("created"))[:19],
        **{key: run.get(key) for key in plain},
    )


def show_run(lab: Lab, run: Run) -> RunShown:
    """Show a run: result, settings that are not the default, newest headline metrics, checkpoints, what to do next."""
    facts = facts_of(lab.run(run))
    last = facts.measured.last
    changed = sections.changed_settings(facts.settings, default_settings(facts.settings, of_algorithm=False))
    own = {key: value for key, value in facts.settings.items() if key.startswith(f"{facts.manifest.get('algorithm')}.")}
    data = sections.result_data(facts)
    evaluated = {
        way: {key: number(part.get(key)) for key in ("mean", "std", "n")}
        for way, part in (data["eval"] or {}).items()
        if isinstance(part, dict)
    }
    return RunShown(
        status=standing(lab, facts.run_id),
        recipe=facts.name,
        seed=facts.manifest.get("seed"),
        evaluation=evaluated or None,
        score_auc=number(facts.score.auc),
        steps_to_threshold=facts.score.steps_to_threshold,
        changed=redact_tree({key: value for key, (value, _) in changed.items()} | own),
        metrics={name: value for name in headlines(last) if (value := number(last[name], 4)) is not None},
        checkpoints={"best": facts.checkpoints["best"], "last": facts.checkpoints["last"]},
        next=sections.next_command(facts),
    )


def compare_runs(
    lab: Lab,
    runs: Annotated[list[Run], Field(min_length=2, max_length=8)],
    metric_name: Annotated[str, Field(max_length=80, description="What to draw.")] = "roll/return_mean",
    chart: bool = True,
) -> Comparison:
    """Compare runs: scores, what was set differently, and one metric overlaid as a text chart."""
    found = {paths.run_id: paths for paths in map(lab.run, runs)}
    every = [facts_of(paths, [metric_name], points=100) for paths in found.values()]
    known = comparison.data(every, metric_name)
    drawn = comparison.overlay(every, metric_name, frame=_SMALL)[1:] if chart else None
    return Comparison(
        runs=[_compared(entry) for entry in known["runs"]],
        settings=redact_tree(known["settings"]),
        notes=known["notes"],
        chart=None if drawn is None else "\n".join(drawn),
    )


def _compared(entry: dict[str, Any]) -> Compared:
    means = {way: number(((entry["eval"] or {}).get(way) or {}).get("mean")) for way in ("greedy", "sampled")}
    return Compared(
        run_id=entry["run_id"],
        recipe=entry["name"],
        status=entry["status"],
        solved=entry["solved"] if isinstance(entry["solved"], bool) else None,
        env_steps=entry["env_steps"],
        score_auc=number(entry["score/auc"]),
        steps_to_threshold=entry.get("score/steps_to_threshold", entry.get("steps_to_threshold")),
        **means,
    )


def metrics(
    lab: Lab,
    run: Run,
    names: Annotated[list[Annotated[str, Field(max_length=80)]] | None, Field(max_length=12)] = None,
    points: Annotated[int, Field(ge=2, le=100)] = 12,
    axis: Axis = "env_steps",
    chart: Annotated[bool, Field(description="A text chart of each.")] = False,
) -> Metrics:
    """Metrics over time, down-sampled (means of stretches), with extremes; without names the list of what there is."""
    paths = lab.run(run)
    facts = facts_of(paths, names or ["roll/return_mean"], axis, points)
    for name in names or []:
        if name not in facts.measured.names:
            told = suggestion(name, facts.measured.names) if facts.measured.names else "nothing was measured yet"
            raise UserError(f"run '{paths.run_id}' has no metric {name!r}: {told}")
    series = [_series(curve, chart=chart) for curve in facts.measured.curves.values()]
    available = None if names else headlines(facts.measured.names)
    return Metrics(run_id=paths.run_id, axis=axis, metrics=series, available=available)


def _series(curve: Curve, *, chart: bool) -> Series:
    frame = PlotFrame(width=48, height=8, axis=curve.axis)
    some = len(curve) > 0
    return Series(
        name=curve.name,
        unit=metric(curve.name).unit,
        x=[float(f"{value:.6g}") for value in curve.x],
        y=[number(float(value), 4) for value in curve.y],
        first=number(float(curve.y[0]), 4) if some else None,
        last=number(curve.last, 4),
        lowest=number(float(curve.low.min()), 4) if some else None,
        highest=number(float(curve.high.max()), 4) if some else None,
        chart="\n".join(plot([PlotLine(curve.name, curve.x, curve.y)], frame)) if chart else None,
    )


def alerts(lab: Lab, run: Run) -> Alerts:
    """Alerts of a run, the worst first: evidence, since when, what to change. Works while it runs."""
    from gymlab.alerts.engine import most_severe_first
    from gymlab.diagnosis.examine import examine

    found = examine(lab.run(run))
    told = [
        AlertShown(
            id=alert.id,
            severity=alert.severity,
            title=alert.title,
            evidence=alert.evidence,
            share=round(alert.share, 3),
            active=alert.active,
            since_env_steps=alert.first.env_steps,
            advice=alert.advice,
            overrides=alert.overrides,
        )
        for alert in most_severe_first(found.alerts)[:12]
    ]
    return Alerts(run_id=found.facts.run_id, alerts=told)


def logs(lab: Lab, run: Run, lines: Annotated[int, Field(ge=1, le=100)] = 20) -> Log:
    """The last lines of a run's log; of one that has not begun, what its process said."""
    from gymlab.mcp.run_status import find
    from gymlab.runs.logs import plain, tail

    paths, job = find(lab, run)
    found = [] if paths is None else tail(paths, lines)
    if not found and job is not None and lab.queue.log_of(job.id).is_file():
        text = lab.queue.log_of(job.id).read_text(encoding="utf-8", errors="replace")
        found = plain(text).splitlines()[-lines:]
    name = paths.run_id if paths is not None else job.run_id if job is not None else run
    return Log(run_id=name or run, lines=[redact(line)[:_LOG_WIDTH] for line in found])


def report(
    lab: Lab,
    run: Run,
    parts: Annotated[
        list[Annotated[str, Field(max_length=40)]] | None,
        Field(max_length=8, description="Headings; default: Result, Score, Alerts, Reproduction."),
    ] = None,
) -> Report:
    """Read a run's report, by headings: Result, Score, Curves, Alerts, Settings, Time, Checkpoints, Reproduction."""
    facts = facts_of(lab.run(run))
    head, chapters = _chapters(report_text(facts))
    wanted = list(parts or [name for name in _DEFAULT_PARTS if name in chapters])
    for name in wanted:
        if name not in chapters:
            raise UserError(f"the report has no part {name!r}: {suggestion(name, chapters)}")
    text = "\n".join([head, *(chapters[name] for name in wanted)])
    return Report(run_id=facts.run_id, markdown=text, sections=[name for name in chapters if name not in wanted])


def report_text(facts: Facts) -> str:
    """The whole report as it would be written now, but for defaults that only JAX knows."""
    from gymlab.reports.report import build_report, known_bounds

    return build_report(facts, default_settings(facts.settings, of_algorithm=False), known_bounds(facts)).markdown


def _chapters(text: str) -> tuple[str, dict[str, str]]:
    head, *rest = text.split("\n## ")
    return head, {part.partition("\n")[0]: f"## {part}" for part in rest}
