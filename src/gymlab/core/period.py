"""A period in steps: it fires at the first update at or after each multiple, and keeps no state."""

from __future__ import annotations

from dataclasses import dataclass

from gymlab.core.clock import Clock, StepClock


@dataclass(frozen=True)
class Period:
    """A function of clocks: earlier updates of the run may have had another size."""

    every: float  # steps between two firings
    clock: StepClock
    steps_per_update: int  # of this clock, from now on
    not_before: int = 0  # steps

    def due(self, now: Clock) -> int:
        """The number of the next update at which this fires."""
        steps = now.at(self.clock)
        return now.updates + max(1, _ceil_div(self._next_multiple(steps) - steps, self.steps_per_update))

    def fires(self, now: Clock) -> bool:
        """Whether the period fires at the update that ended at this clock."""
        steps = now.at(self.clock)
        return now.updates > 0 and self._next_multiple(steps - self.steps_per_update) <= steps

    def _next_multiple(self, steps: int) -> float:
        """The first multiple after `steps`, not before `not_before`."""
        done = max(steps, self.not_before - 1)
        multiple = int(done // self.every) + 1
        while multiple * self.every <= done:  # float division may land one too low
            multiple += 1
        return multiple * self.every


def _ceil_div(a: float, b: int) -> int:
    return int(-(-a // b))
