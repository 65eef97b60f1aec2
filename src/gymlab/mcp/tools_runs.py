"""Tools on stored runs: lists, pages, curves, alerts, logs, a digest; and removing a run where that is allowed."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from typing import Annotated, Any, Literal

from pydantic import Field

from gymlab.core.errors import UserError, suggestion
from gymlab.mcp.answers import (
    AlertEntry,
    AlertsAnswer,
    ComparedRun,
    ComparisonAnswer,
    DigestAnswer,
    DigestEvent,
    LogAnswer,
    MetricsAnswer,
    MetricSeries,
    RemovalAnswer,
    ReportAnswer,
    RunAnswer,
    RunEntry,
    RunsAnswer,
)
from gymlab.mcp.arguments import Limit, Offset, Run
from gymlab.mcp.config import ServerConfig
from gymlab.mcp.status import find_run_and_job, number, read_run_facts, run_status
from gymlab.mcp.tools_catalogue import paged
from gymlab.metrics.catalogue import headlines, metric
from gymlab.recipes.keys import default_settings
from gymlab.reports import compare as comparison
from gymlab.reports import sections
from gymlab.reports.run_facts import Facts
from gymlab.runs.metrics_reader import Curve
from gymlab.runs.paths import RunPaths
from gymlab.runs.records import RegistryEntry
from gymlab.runs.redact import redact, redact_tree
from gymlab.runs.registry import Registry
from gymlab.runs.status import read_status
from gymlab.terminal.plots import PlotFrame, PlotLine, plot

Axis = Literal["env_steps", "vec_steps", "updates", "gradient_steps", "seconds"]
_SMALL = PlotFrame(width=48, height=8, axis="env_steps")
_LOG_WIDTH = 300
_DEFAULT_PARTS = ("Result", "Score", "Alerts", "Reproduction")
_AGO = re.compile(r"(\d{1,5})\s*(s|m|h|d)")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def list_runs(
    config: ServerConfig,
    env: Annotated[str | None, Field(max_length=100)] = None,
    status: Literal["running", "finished", "stopped", "crashed", "failed"] | None = None,
    tag: Annotated[str | None, Field(max_length=64)] = None,
    group: Annotated[str | None, Field(max_length=64)] = None,
    limit: Limit = 10,
    offset: Offset = 0,
) -> RunsAnswer:
    """List runs, newest first. What still waits to start is in queue."""
    options = {"env": env, "status": status, "group": group}
    filters = {key: value for key, value in options.items() if value is not None}
    found = [
        run
        for run in Registry(config.root).runs()
        if all(run.get(key) == value for key, value in filters.items()) and (tag is None or tag in run["tags"])
    ]
    page, following = paged(found, limit, offset)
    return RunsAnswer(runs=[_entry(run) for run in page], total=len(found), next_offset=following)


def _entry(run: RegistryEntry) -> RunEntry:
    plain = ("seed", "status", "env_steps", "solved", "group", "tags")
    return RunEntry(
        run_id=run["id"],
        recipe=run.get("name"),
        score=number(run.get("score")),
        created=str(run.get("created"))[:19],
        **{key: run.get(key) for key in plain},
    )


def show_run(config: ServerConfig, run: Run) -> RunAnswer:
    """Show a run: result, settings that are not the default, newest headline metrics, checkpoints, what to do next."""
    facts = read_run_facts(config.run(run))
    last = facts.measured.last
    changed = sections.changed_settings(facts.settings, default_settings(facts.settings, of_algorithm=False))
    own = {key: value for key, value in facts.settings.items() if key.startswith(f"{facts.manifest.get('algorithm')}.")}
    data = sections.result_data(facts)
    evaluated = {
        way: {key: number(part.get(key)) for key in ("mean", "std", "n")}
        for way, part in (data["eval"] or {}).items()
        if isinstance(part, dict)
    }
    return RunAnswer(
        status=run_status(config, facts.run_id),
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
    config: ServerConfig,
    runs: Annotated[list[Run], Field(min_length=2, max_length=8)],
    metric_name: Annotated[str, Field(max_length=80, description="What to draw.")] = "roll/return_mean",
    chart: bool = True,
) -> ComparisonAnswer:
    """Compare runs: scores, what was set differently, and one metric overlaid as a text chart."""
    found = {paths.run_id: paths for paths in map(config.run, runs)}
    every = [read_run_facts(paths, [metric_name], points=100) for paths in found.values()]
    known = comparison.data(every, metric_name)
    drawn = comparison.overlay(every, metric_name, frame=_SMALL)[1:] if chart else None
    return ComparisonAnswer(
        runs=[_compared(entry) for entry in known["runs"]],
        settings=redact_tree(known["settings"]),
        notes=known["notes"],
        chart=None if drawn is None else "\n".join(drawn),
    )


def _compared(entry: dict[str, Any]) -> ComparedRun:
    means = {way: number(((entry["eval"] or {}).get(way) or {}).get("mean")) for way in ("greedy", "sampled")}
    return ComparedRun(
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
    config: ServerConfig,
    run: Run,
    names: Annotated[list[Annotated[str, Field(max_length=80)]] | None, Field(max_length=12)] = None,
    points: Annotated[int, Field(ge=2, le=100)] = 12,
    axis: Axis = "env_steps",
    chart: Annotated[bool, Field(description="A text chart of each.")] = False,
) -> MetricsAnswer:
    """Metrics over time, down-sampled (means of stretches), with extremes; without names the list of what there is."""
    paths = config.run(run)
    facts = read_run_facts(paths, names or ["roll/return_mean"], axis, points)
    for name in names or []:
        if name not in facts.measured.names:
            hint = suggestion(name, facts.measured.names) if facts.measured.names else "nothing was measured yet"
            raise UserError(f"run '{paths.run_id}' has no metric {name!r}: {hint}")
    series = [_series(curve, chart=chart) for curve in facts.measured.curves.values()]
    available = None if names else headlines(facts.measured.names)
    return MetricsAnswer(run_id=paths.run_id, axis=axis, metrics=series, available=available)


def _series(curve: Curve, *, chart: bool) -> MetricSeries:
    frame = PlotFrame(width=48, height=8, axis=curve.axis)
    some = len(curve) > 0
    return MetricSeries(
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


def alerts(config: ServerConfig, run: Run) -> AlertsAnswer:
    """Alerts of a run, the worst first: evidence, since when, what to change. Works while it runs."""
    from gymlab.alerts.engine import most_severe_first
    from gymlab.diagnosis.examine import examine

    found = examine(config.run(run))
    entries = [
        AlertEntry(
            id=alert.id,
            severity=alert.severity,
            title=alert.title,
            evidence=alert.evidence,
            share=round(alert.share, 3),
            active=alert.active,
            since_env_steps=alert.first.env_steps,
            advice=alert.advice,
            overrides=dict(alert.overrides),
        )
        for alert in most_severe_first(found.alerts)[:12]
    ]
    return AlertsAnswer(run_id=found.facts.run_id, alerts=entries)


def logs(config: ServerConfig, run: Run, lines: Annotated[int, Field(ge=1, le=100)] = 20) -> LogAnswer:
    """The last lines of a run's log; of one that has not started, the output of its process."""
    from gymlab.runs.logs import strip_escapes, tail

    paths, job = find_run_and_job(config, run)
    found = [] if paths is None else tail(paths, lines)
    if not found and job is not None and config.queue.log_path(job.id).is_file():
        text = config.queue.log_path(job.id).read_text(encoding="utf-8", errors="replace")
        found = strip_escapes(text).splitlines()[-lines:]
    name = paths.run_id if paths is not None else job.run_id if job is not None else run
    return LogAnswer(run_id=name or run, lines=[redact(line)[:_LOG_WIDTH] for line in found])


def report(
    config: ServerConfig,
    run: Run,
    parts: Annotated[
        list[Annotated[str, Field(max_length=40)]] | None,
        Field(max_length=8, description="Headings; default: Result, Score, Alerts, Reproduction."),
    ] = None,
) -> ReportAnswer:
    """Read a run's report, by headings: Result, Score, Curves, Alerts, Settings, Time, Checkpoints, Reproduction."""
    facts = read_run_facts(config.run(run))
    head, chapters = _chapters(report_text(facts))
    headings = list(parts or [name for name in _DEFAULT_PARTS if name in chapters])
    for name in headings:
        if name not in chapters:
            raise UserError(f"the report has no part {name!r}: {suggestion(name, chapters)}")
    text = "\n".join([head, *(chapters[name] for name in headings)])
    return ReportAnswer(
        run_id=facts.run_id, markdown=text, sections=[name for name in chapters if name not in headings]
    )


def report_text(facts: Facts) -> str:
    """The report, built from the folder; defaults that only JAX knows are left out."""
    from gymlab.reports.report import build_report, known_bounds

    return build_report(facts, default_settings(facts.settings, of_algorithm=False), known_bounds(facts)).markdown


def _chapters(text: str) -> tuple[str, dict[str, str]]:
    head, *rest = text.split("\n## ")
    return head, {part.partition("\n")[0]: f"## {part}" for part in rest}


def digest(
    config: ServerConfig,
    since: Annotated[str, Field(max_length=40, description="'2h', '30m', or a time such as 2026-11-15T08:00:00Z.")],
    limit: Limit = 20,
) -> DigestAnswer:
    """What happened since a time: runs that began and ended, with their results; what runs and waits now."""
    start = _parse_time(since)
    runs = Registry(config.root).runs()
    jobs = config.queue.jobs()
    events = [event for run in runs for event in _run_events(config, run)]
    events += [
        DigestEvent(
            time=job.ended,
            what=f"job {job.state}: {job.title[:120]} {job.message}".strip(),
            run_id=job.run_id,
            job=job.id,
        )
        for job in jobs
        if job.ended is not None and job.state in ("failed", "cancelled")
    ]
    recent = sorted((e for e in events if e.time >= start), key=lambda event: event.time, reverse=True)
    count = Counter(event.what.partition(":")[0] for event in recent)
    return DigestAnswer(
        since=start,
        events=[event.model_copy(update={"time": event.time[:19]}) for event in recent[:limit]],
        running=[run["id"] for run in runs if run["status"] == "running"][:20],
        waiting=sum(job.state == "waiting" for job in jobs),
        summary=", ".join(f"{number} {what}" for what, number in count.items()) or "nothing happened",
    )


def delete_run(config: ServerConfig, run: Run) -> RemovalAnswer:
    """Remove a run for good. One that is running is refused; only by its full id."""
    from gymlab.runs.store import remove_run

    paths = config.run(run)
    if paths.run_id != run:
        raise UserError(f"run {run!r}: name the whole id ('{paths.run_id}') to remove it")
    remove_run(paths)
    return RemovalAnswer(run_id=paths.run_id)


def _run_events(config: ServerConfig, run: RegistryEntry) -> list[DigestEvent]:
    name = f"{run.get('name')} seed {run.get('seed')}"
    events = [DigestEvent(time=str(run.get("created") or ""), what=f"began: {name}", run_id=run["id"])]
    if run["status"] == "running":
        return events
    status = read_status(RunPaths(config.root / run["id"]))
    ended = status.get("ended") or status.get("heartbeat")
    if ended:
        score = run.get("score")
        result = f", score {score:.6g}" if isinstance(score, int | float) else ""
        solved = {True: ", solved", False: ", not solved"}.get(run.get("solved"), "")  # type: ignore[arg-type]
        events.append(DigestEvent(time=str(ended), what=f"{run['status']}: {name}{result}{solved}", run_id=run["id"]))
    return events


def _parse_time(text: str) -> str:
    """A time as the records hold it: UTC in one format, which compares as text."""
    ago = _AGO.fullmatch(text.strip())
    try:
        if ago is not None:
            moment = datetime.datetime.now(datetime.UTC) - datetime.timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        else:
            moment = datetime.datetime.fromisoformat(text.strip())
            moment = moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment.astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        raise UserError(f"since {text[:40]!r}: '30m', '2h', '1d' or a time such as 2026-11-15T08:00:00Z") from None
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
