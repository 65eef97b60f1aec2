"""Live updates: stamps that tell when a run's files change, and a run whose fields are re-read when they do.

Pages poll the stamps with a timer; NiceGUI pushes what they change to the browser over its websocket.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from gymlab.alerts.engine import Alert, most_severe_first
from gymlab.core.types import JsonObject
from gymlab.metrics.metric import Limits
from gymlab.reports.report import bounds_json, bounds_of, report_json
from gymlab.runs import requests
from gymlab.runs.manifest import read_manifest
from gymlab.runs.paths import RunPaths
from gymlab.runs.records import AlertRecord, ManifestRecord, StatusRecord
from gymlab.runs.status import read_record, read_status

if TYPE_CHECKING:
    from gymlab.web.charts.downsampled_series import RunSeries

Stamp = tuple[int, ...]


def stamp(*paths: Path) -> Stamp:
    """Modification times and sizes: changes when any of the files does."""
    found: list[int] = []
    for path in paths:
        try:
            about = os.stat(path)
            found += [about.st_mtime_ns, about.st_size]
        except OSError:
            found += [0, 0]
    return tuple(found)


T = TypeVar("T")


def metrics_stamp(paths: RunPaths) -> Stamp:
    """Changes with every commit of the run's metrics."""
    return stamp(paths.metrics, paths.metrics.with_name(paths.metrics.name + "-wal"))


class LiveRun:
    """A run as the panels of its page share it."""

    def __init__(self, paths: RunPaths, series: RunSeries) -> None:
        self.paths = paths
        self.series = series
        self._settings: JsonObject | None = None
        self._limits: tuple[Stamp, dict[str, Limits]] = (), {}

    @property
    def settings(self) -> JsonObject:
        """The run's settings by full key; they do not change while a page is open."""
        if self._settings is None:
            from gymlab.recipes.keys import read_settings

            self._settings = read_settings(self.paths.inside(self.paths.recipe))
        return self._settings

    @property
    def manifest(self) -> ManifestRecord:
        return read_manifest(self.paths)

    @property
    def status(self) -> StatusRecord:
        return read_status(self.paths)

    @property
    def paused(self) -> bool:
        return requests.read_pause_state(self.paths).get("paused") is True

    @property
    def goal(self) -> float | None:
        """The return that counts as solved."""
        solved_at = self.settings.get("env.solved_at", self.manifest.get("solved_at"))
        return float(solved_at) if isinstance(solved_at, int | float) else None

    def limits(self) -> dict[str, Limits]:
        """The bounds of each metric."""
        names = self.series.names
        now = len(names), *stamp(bounds_json(self.paths), report_json(self.paths))
        if self._limits[0] != now:
            self._limits = now, bounds_of(self.paths, self.settings, names)
        return self._limits[1]

    def drawn(self, key: Hashable, draw: Callable[[], T]) -> T:
        """A rendering of the present metrics, cached for all pages with the same settings."""
        return self.series.drawn(key, draw)

    def alerts(self) -> list[Alert]:
        """Most severe first; damaged entries are left out."""
        return read_alerts(self.paths)

    def stamp(self) -> Stamp:
        """Changes when anything but the metrics does."""
        paths = self.paths
        return stamp(
            paths.status,
            paths.alerts,
            paths.root / "pause.json",
            paths.log,
            paths.videos,
            paths.checkpoints,
            paths.report,
            paths.tags,
            paths.lock,
        )


def read_alerts(paths: RunPaths) -> list[Alert]:
    """A run's alerts, most severe first."""
    found = read_record(paths.alerts).get("alerts")
    alerts = []
    for data in found if isinstance(found, list) else []:
        with contextlib.suppress(KeyError, TypeError, ValueError):
            alerts.append(Alert.from_json(cast("AlertRecord", data)))
    with contextlib.suppress(ValueError, TypeError):
        return most_severe_first(alerts)
    return []


def plain_text(value: object, most: int = 2000) -> str:
    """Anything from a run's folder as text of bounded length."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text[:most])
