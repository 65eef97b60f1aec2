"""Speed: env steps per second, now and over the whole run, and what checkpoints cost."""

from __future__ import annotations

from gymlab.core.clock import Clock
from gymlab.training.events import Checkpointed, Control, Event, Feature, Measured, Started, Updated


class Measure(Feature):
    name = "measure"

    def __init__(self) -> None:
        self._last = Clock()
        self._first = Clock()

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Started):
            self._first = self._last = event.clock
        elif isinstance(event, Updated):
            values = {"time/sps": _rate(self._last, event.clock), "time/sps_mean": _rate(self._first, event.clock)}
            self._last = event.clock
            control.emit(Measured(event.clock, values))
        elif isinstance(event, Checkpointed):
            control.emit(
                Measured(event.clock, {"time/checkpoint": event.seconds, "sys/checkpoint_bytes": float(event.bytes)})
            )


def _rate(earlier: Clock, later: Clock) -> float:
    seconds = later.seconds - earlier.seconds
    return (later.env_steps - earlier.env_steps) / seconds if seconds > 0 else float("nan")
