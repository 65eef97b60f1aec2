"""The report of a run: report.md and report.json, and the bounds of its metrics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from gymlab.core.types import JsonObject, Space
from gymlab.metrics.bounds import Context, bounds, return_range
from gymlab.metrics.metric import Limits
from gymlab.reports import sections
from gymlab.reports.run_facts import Facts
from gymlab.reports.sections import Section
from gymlab.runs import files
from gymlab.runs.paths import RunPaths
from gymlab.runs.redact import redact, redact_tree
from gymlab.runs.status import read_record

FORMAT = 1


class Report(NamedTuple):
    markdown: str
    data: dict[str, object]


def build_report(facts: Facts, defaults: JsonObject, limits: Mapping[str, Limits] | None = None) -> Report:
    """The whole report. `limits` are the bounds of metrics, where they are known."""
    parts = [
        sections.result(facts),
        sections.score(facts),
        sections.curves(facts),
        sections.alerts(facts),
        sections.settings(facts, defaults),
        sections.time(facts),
        sections.checkpoints(facts),
        sections.reproduction(facts),
    ]
    present = [part for part in parts if part is not None]
    head = {"format": FORMAT, "run_id": facts.run_id, "name": facts.name, "seed": facts.manifest.get("seed")}
    data = head | {part.key: part.data for part in present} | {"bounds": dict(limits or {})}
    return Report(_markdown(facts, present), redact_tree(data))


def _markdown(facts: Facts, parts: list[Section]) -> str:
    solved = facts.summary.get("solved")
    verdict = {True: "solved", False: "not solved"}[solved] if isinstance(solved, bool) else str(facts.status["status"])
    lines = [
        f"# {sections.printable(facts.name)}, seed {sections.printable(facts.manifest.get('seed'))}: {verdict}",
        "",
    ]
    lines += [f"Run `{facts.run_id}`{_engine(facts)}.", ""]
    for part in parts:
        lines += [f"## {part.title}", "", *part.lines, ""]
    return redact("\n".join(lines).rstrip() + "\n")


def _engine(facts: Facts) -> str:
    engine = facts.manifest.get("engine")
    if not isinstance(engine, dict):
        return ""
    return f", {sections.printable(engine.get('engine'))} engine on {sections.printable(engine.get('device'))}"


def report_json(paths: RunPaths) -> Path:
    """The path of report.json."""
    return paths.report.with_suffix(".json")


def write_report(paths: RunPaths, report: Report) -> None:
    """Write both files, each atomically."""
    files.write_text(paths.inside(paths.report), report.markdown)
    files.write_text(paths.inside(report_json(paths)), files.strict_json(report.data) + "\n")


def bounds_json(paths: RunPaths) -> Path:
    """The path of bounds.json: the bounds of metrics of a run that has no report yet."""
    return paths.root / "bounds.json"


def write_bounds(paths: RunPaths, limits: Mapping[str, Limits]) -> None:
    """Write bounds.json for viewers of a live run: the bounds follow from spaces, which only the run knows."""
    files.write_text(paths.inside(bounds_json(paths)), files.strict_json(dict(limits)) + "\n", durable=False)


def known_bounds(facts: Facts) -> dict[str, Limits]:
    """Bounds of a run's metrics: from its report or bounds.json, else inferred from its settings."""
    return bounds_of(facts.paths, facts.settings, facts.measured.names)


def bounds_of(paths: RunPaths, settings: JsonObject, names: Iterable[str]) -> dict[str, Limits]:
    """The same without the run's facts."""
    return {name: bounds(name, context_of(settings)) for name in names} | written_bounds(paths)


def written_bounds(paths: RunPaths) -> dict[str, Limits]:
    """The bounds that the run itself wrote, by metric; {} before it has."""
    reported = read_record(report_json(paths)).get("bounds")
    noted = {**read_record(bounds_json(paths)), **(reported if isinstance(reported, dict) else {})}
    found: dict[str, Limits] = {}
    for name, pair in noted.items():
        if isinstance(pair, list) and len(pair) == 2 and all(isinstance(x, int | float | None) for x in pair):
            low, high = pair
            found[name] = (-math.inf if low is None else float(low), math.inf if high is None else float(high))
    return found


def context_of(
    settings: JsonObject,
    action: Space | None = None,
    observation: Space | None = None,
    limit: int = 0,
    *,
    keeps_returns: bool | None = None,
) -> Context:
    """The context that bounds are inferred from, of a run's settings and spaces.

    `keeps_returns`: whether all wrappers leave the env's own reward as it is; None: unknown, so only without wrappers.
    """
    setting = settings.get("env.max_episode_steps")
    steps = limit or (setting if isinstance(setting, int) else 0)
    changed = [key for key in settings if key.startswith("env.kwargs.") or (key == "env.kwargs" and settings[key])]
    kept = not settings.get("env.wrappers") if keeps_returns is None else keeps_returns
    possible = return_range(str(settings.get("env.id")), steps, dict.fromkeys(changed)) if steps and kept else None
    return Context(action, observation, possible, steps or None, settings)
