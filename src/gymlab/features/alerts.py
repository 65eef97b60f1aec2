"""Alerts feature: raises and clears alerts from a run's metrics, and writes `alerts.json`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import cast

from gymlab.alerts.engine import AlertChange, AlertEngine, AlertEngineState, alerts_json
from gymlab.core.clock import Clock
from gymlab.core.format import format_count
from gymlab.runs import files
from gymlab.runs.paths import RunPaths
from gymlab.training.events import (
    AlertCleared,
    AlertRaised,
    Checkpointed,
    CheckpointRequested,
    Control,
    Ended,
    Event,
    Feature,
    FeatureState,
    HistogramsRequested,
    Measured,
    Recorded,
    Started,
)

log = logging.getLogger(__name__)
PREFLIGHT = {"env/copies"}  # judged with the first row, whatever rows are told together
Preflight = Callable[[], dict[str, float]]  # metrics of the first row, found before it


class Alerts(Feature):
    """Judges rows as the store holds them, so that the same alerts can be computed from it later."""

    name = "alerts"

    def __init__(self, engine: AlertEngine, paths: RunPaths, preflight: Preflight = dict) -> None:
        self.engine = engine
        self._paths = paths
        self._preflight = preflight
        self._first: dict[str, float] = {}
        self._written = ""

    def state(self) -> FeatureState:
        state = self.engine.state()
        return {**state} if state["rules"] else {}

    def restore(self, state: FeatureState) -> None:
        self.engine.restore(cast("AlertEngineState", state))

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Started):
            self._first = {} if event.clock.updates else self._preflight()
            self._write()
        elif isinstance(event, Recorded):
            for row in event.rows:
                found = self._first
                self._first = {}
                self._fold(row.clock, {**row.metrics, **found}, control)
                if found:
                    control.emit(Measured(row.clock, found))
        elif isinstance(event, Measured) and event.clock.updates > 0 and not event.metrics.keys() <= PREFLIGHT:
            self._fold(event.clock, event.metrics, control)
        elif isinstance(event, CheckpointRequested) and event.kind == "asked":
            self.engine.expect_late(event.clock.updates)
        elif isinstance(event, Checkpointed | Ended):
            self._write()

    def _fold(self, clock: Clock, metrics: Mapping[str, float], control: Control) -> None:
        changes = self.engine.fold(clock, metrics)
        for change in changes:
            self._report(change, clock, control)
        if changes:
            self._write()

    def _report(self, change: AlertChange, clock: Clock, control: Control) -> None:
        alert = change.alert
        at = f"at {format_count(clock.env_steps, brief=True)} env_steps"
        if not change.raised:
            log.info("alert %s cleared %s", alert.id, at)
            control.emit(AlertCleared(clock, alert))
            return
        log.info("alert %s (%s) %s: %s. %s", alert.id, alert.severity, at, alert.evidence, alert.advice)
        control.emit(AlertRaised(clock, alert))
        if change.requests_histograms:
            control.emit(HistogramsRequested(clock))

    def _write(self) -> None:
        text = files.strict_json(alerts_json(self.engine.alerts())) + "\n"
        if text != self._written:
            files.write_text(self._paths.inside(self._paths.alerts), text, durable=False)
            self._written = text
