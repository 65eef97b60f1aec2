"""`gymlab runs show`: a run on one page, as text. Pure functions of its facts."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from gymlab.core.types import JsonObject
from gymlab.metrics.catalogue import NAMESPACES, grouped, headlines, metric, written
from gymlab.reports import sections
from gymlab.reports.run_facts import Facts
from gymlab.reports.sections import printable
from gymlab.runs.videos import best_clip, recorder_of, scan, scan_pending
from gymlab.terminal.plots import PlotFrame, sparkline

_WIDTH = 100
_ALWAYS = ("budget", "n_envs", "n_steps", "policy.hidden", "policy.activation")


def page(facts: Facts, defaults: JsonObject, *, every_metric: bool = False) -> list[str]:
    """The whole page."""
    curves = sections.return_plot(facts, PlotFrame(height=10, axis=_axis(facts), threshold=facts.solved_at))
    return [
        *_head(facts),
        *_part("Result", _rows({**sections.result_rows(facts), **sections.score_rows(facts)})),
        *_part("Settings", _rows(_settings(facts, defaults))),
        *_part(_row_title(facts), _metrics(facts, every_metric=every_metric)),
        *_part("Returns", curves),
        *_part("Checkpoints", [line.replace("`", "") for line in sections.checkpoints(facts).lines]),
        *_videos(facts),
        "",
        f"next: {sections.next_command(facts)}",
    ]


def page_data(facts: Facts) -> dict[str, object]:
    """The page as JSON data."""
    return {
        "settings": dict(facts.settings),
        "result": sections.result_data(facts),
        "score": facts.score.as_json(),
        "curves": {name: sections.curve_data(curve) for name, curve in facts.measured.curves.items()},
        "videos": [{"path": str(clip.path), **clip.about} for clip in scan(facts.paths)],
        "next": sections.next_command(facts),
    }


def _videos(facts: Facts) -> list[str]:
    best = best_clip(facts.paths)
    found = scan(facts.paths)
    if best is None:
        return _part("Videos", _pending_videos(facts))
    others = ", ".join(f"{clip.env_steps} ({', '.join(clip.kinds)})" for clip in found if clip.path != best.path)
    lines = [f"best {printable(best.path)} (return {printable(best.about.get('return'))})"]
    lines += [f"others at env_steps {printable(others)}"] if others else []
    return _part("Videos", [*lines, *_pending_videos(facts)])


def _pending_videos(facts: Facts) -> list[str]:
    """Films that are made in the background after the run, and those whose maker was killed."""
    pending = scan_pending(facts.paths)
    if not pending or facts.status.get("status") == "running":
        return []
    films = f"{len(pending)} {'film' if len(pending) == 1 else 'films'}"
    them = "it" if len(pending) == 1 else "them"
    if facts.status.get("filming"):
        return [f"{films} still being made by {printable(recorder_of(facts.paths) or 'a process that just ended')}"]
    return [f"{films} missing: `gymlab video {facts.run_id}` makes {them}"]


def _head(facts: Facts) -> list[str]:
    engine = facts.manifest.get("engine")
    where = (
        f"{printable(engine.get('engine'))} engine on {printable(engine.get('device'))}"
        if isinstance(engine, dict)
        else ""
    )
    about = [
        printable(facts.name),
        f"seed {printable(facts.manifest.get('seed'))}",
        where,
        *map(printable, facts.tags),
    ]
    note = facts.manifest.get("note")
    lines = [
        f"{facts.run_id}: {' · '.join(part for part in about if part)}",
        f"folder: {printable(facts.paths.root)}",
    ]
    return [*lines, f"note: {printable(note)}"] if note else lines


def _settings(facts: Facts, defaults: JsonObject) -> dict[str, str]:
    """The size of the run, settings that differ from their default, and those whose default is not known here."""
    values = facts.settings
    changed = sections.changed_settings(values, defaults)
    listed = {key: values[key] for key in _ALWAYS if key in values}
    listed |= {key: value for key, (value, _) in changed.items()}
    own = {key: value for key, value in values.items() if key not in defaults and "." in key and value is not None}
    rows = {"run": _joined({key: value for key, value in listed.items() if "." not in key})}
    for key, value in {**{key: value for key, value in listed.items() if "." in key}, **own}.items():
        block, _, leaf = key.rpartition(".")
        rows[block] = ", ".join(filter(None, [rows.get(block, ""), f"{leaf} {printable(value)}"]))
    return {printable(block): text for block, text in rows.items() if text}


def _joined(values: JsonObject) -> str:
    return ", ".join(f"{key} {printable(value)}" for key, value in values.items())


def _row_title(facts: Facts) -> str:
    update = facts.measured.last.get("updates")
    return "Metrics" if update is None else f"Metrics at update {update:.0f}"


def _metrics(facts: Facts, *, every_metric: bool) -> list[str]:
    """The last row by namespace, in order of priority, with a sparkline of each metric."""
    last = facts.measured.last
    if not last:
        return ["(nothing measured yet)"]
    names_shown = list(last) if every_metric else headlines(last)
    lines = []
    hidden = len(last) - len(names_shown)
    for namespace, names in grouped(names_shown).items():
        if namespace == "hp":
            text = ", ".join(f"{printable(name.removeprefix('hp/'))} {written(name, last[name])}" for name in names)
            lines += [NAMESPACES[namespace], *textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  ")]
        elif namespace != "clock":
            rows = [_metric_row(facts, name) for name in names]
            lines += [
                NAMESPACES.get(namespace, printable(namespace)),
                *(f"  {row}" for row in sections.columns(rows, (1,))),
            ]
    return [*lines, f"(and {hidden} more: --all)"] if hidden else lines


def _metric_row(facts: Facts, name: str) -> tuple[str, str, str, str]:
    curve = facts.measured.curves.get(name)
    line = sparkline(curve.y, 32) if curve is not None and len(curve) > 1 and not metric(name).monotonic else ""
    unit = metric(name).unit
    return (
        printable(name),
        written(name, facts.measured.last[name]),
        "" if unit in ("share", "bytes") else unit,
        line,
    )


def _axis(facts: Facts) -> str:
    return next((curve.axis for curve in facts.measured.curves.values()), "vec_steps")


def _rows(rows: Mapping[str, str]) -> list[str]:
    """Titles and texts in two columns, long texts wrapped beside their title."""
    width = max(map(len, rows), default=0) + 2
    lines: list[str] = []
    for title, text in rows.items():
        wrapped = textwrap.wrap(text, max(30, _WIDTH - width)) or [""]
        lines += [f"{title:<{width}}{wrapped[0]}", *(" " * width + more for more in wrapped[1:])]
    return lines


def _part(title: str, lines: list[str]) -> list[str]:
    return ["", title, *(f"  {line}".rstrip() for line in lines)]
