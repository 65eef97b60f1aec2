"""The machine: env steps per second, memory and CPU in use, what checkpoints cost; and asking for distributions."""

from __future__ import annotations

import time
from typing import Any

from gymlab.core.clock import Clock
from gymlab.features.gpu_metrics import gpu_metrics
from gymlab.process.usage import Usage, usage_metrics, usage_now
from gymlab.training.compile_time import compile_seconds
from gymlab.training.events import (
    Checkpointed,
    Control,
    Event,
    Feature,
    HistogramsRequested,
    Measured,
    Started,
    Updated,
)
from gymlab.training.update_histograms import HistogramSchedule

LOOK_SECONDS = 1.0  # between two looks at the machine


class Measure(Feature):
    """`longest_call` is how many updates one call of the program can do.

    Distributions that are asked for are taken so many updates after the row that was the reason: by then every way of
    cutting updates into calls has delivered that row, so the same updates are looked at in every run.
    """

    name = "measure"

    def __init__(
        self, looks: HistogramSchedule | None = None, longest_call: int = 1, compiled: float | None = None
    ) -> None:
        """`compiled`: the seconds that had been spent compiling when the run's parts were built; None: now."""
        self._looks = looks or HistogramSchedule()
        self._longest_call = longest_call
        self._last = Clock()
        self._first = Clock()
        self._usage: Usage | None = None
        self._compiled = compile_seconds() if compiled is None else compiled

    def state(self) -> dict[str, Any]:
        return {"asked": sorted(self._looks.asked)} if self._looks.asked else {}

    def restore(self, state: dict[str, Any]) -> None:
        self._looks.asked = set(state["asked"])

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Started):
            self._first = self._last = event.clock
            self._usage = usage_now()
        elif isinstance(event, Updated):
            values = {"time/sps": _rate(self._last, event.clock), "time/sps_mean": _rate(self._first, event.clock)}
            self._last = event.clock
            self._looks.forget(event.clock.updates)
            control.emit(Measured(event.clock, values | self._compiling() | self._machine()))
        elif isinstance(event, HistogramsRequested):
            self._looks.ask(event.clock.updates + self._longest_call)
        elif isinstance(event, Checkpointed):
            control.emit(
                Measured(event.clock, {"time/checkpoint": event.seconds, "sys/checkpoint_bytes": float(event.bytes)})
            )

    def _compiling(self) -> dict[str, float]:
        before = self._compiled
        self._compiled = compile_seconds()
        return {"time/compile": self._compiled - before} if self._compiled > before else {}

    def _machine(self) -> dict[str, float]:
        before = self._usage
        now = usage_now() if self._due() else None
        if before is None or now is None:
            return {}
        self._usage = now
        return usage_metrics(before, now) | gpu_metrics()

    def _due(self) -> bool:
        return self._usage is not None and time.monotonic() - self._usage.at >= LOOK_SECONDS


def _rate(earlier: Clock, later: Clock) -> float:
    seconds = later.seconds - earlier.seconds
    return (later.env_steps - earlier.env_steps) / seconds if seconds > 0 else float("nan")
