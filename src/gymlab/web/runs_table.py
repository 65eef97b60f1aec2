"""The rows of the table of all runs, and of the table of recipes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from gymlab.reports.sections import yes_or_no
from gymlab.runs.paths import RunPaths
from gymlab.runs.registry import Registry
from gymlab.runs.status import read_record
from gymlab.web.series import Stamp, stamp
from gymlab.web.site import Site
from gymlab.web.view import plain_text

Row = dict[str, Any]
_TEXTS = {
    "id": "id",
    "status": "status",
    "recipe": "name",
    "env": "env",
    "algorithm": "algorithm",
    "note": "note",
    "created": "created",
    "group": "group",
}
_NUMBERS = {"score": "best_return", "env_steps": "env_steps", "seconds": "seconds", "seed": "seed"}


class RunsTable:
    """All runs, read again only where something has changed. Used from worker threads."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._alerts: dict[str, tuple[Stamp, int]] = {}
        self._live: list[str] = []

    def stamp(self) -> Stamp:
        """Changes when a run begins, moves on or ends well."""
        root = self._site.runs_dir
        return stamp(root / "registry.json", root, *(root / run_id / "status.json" for run_id in self._live))

    def rows(self) -> list[Row]:
        """Newest first."""
        entries = Registry(self._site.runs_dir).runs()
        self._live = [str(entry["id"]) for entry in entries if entry.get("status") == "running"]
        return [self._row(entry) for entry in entries]

    def _row(self, entry: Mapping[str, Any]) -> Row:
        tags = entry.get("tags")
        return {
            **{key: plain_text(entry.get(name), 300) for key, name in _TEXTS.items()},
            **{key: _number(entry.get(name)) for key, name in _NUMBERS.items()},
            "solved": yes_or_no(entry.get("solved"), ""),
            "tags": ", ".join(plain_text(tag, 64) for tag in tags) if isinstance(tags, list) else "",
            "alerts": self._alert_count(str(entry["id"])),
        }

    def _alert_count(self, run_id: str) -> int:
        path = RunPaths(self._site.runs_dir / run_id).alerts
        now = stamp(path)
        known = self._alerts.get(run_id)
        if known is None or known[0] != now:
            found = read_record(path).get("alerts")
            known = self._alerts[run_id] = now, len(found) if isinstance(found, list) else 0
        return known[1]


def by_recipe(rows: Sequence[Row]) -> list[Row]:
    """One row for each recipe: how many runs, and what came of them."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["recipe"], []).append(row)
    return [_group(recipe, members) for recipe, members in groups.items()]


def _group(recipe: str, members: Sequence[Row]) -> Row:
    scores = [row["score"] for row in members if row["score"] is not None]
    return {
        "recipe": recipe,
        "runs": len(members),
        "running": sum(row["status"] == "running" for row in members),
        "solved": sum(row["solved"] == "yes" for row in members),
        "best": max(scores, default=None),
        "mean": statistics.fmean(scores) if scores else None,
        "std": statistics.stdev(scores) if len(scores) > 1 else None,
        "alerts": sum(row["alerts"] for row in members),
        "newest": members[0]["id"],
    }


def _number(value: Any) -> float | int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value
