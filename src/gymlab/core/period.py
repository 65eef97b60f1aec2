"""A period in steps: it fires at the first update at or after each multiple, and keeps no state."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Period:
    every: float  # steps between two firings
    steps_per_update: int  # of the same clock
    not_before: int = 0  # steps

    def due(self, updates: int) -> int:
        """The next update, after `updates` of them, at which this fires."""
        done = max(updates * self.steps_per_update, self.not_before - 1)
        multiple = int(done // self.every) + 1
        while multiple * self.every <= done:  # float division may land one too low
            multiple += 1
        return max(_ceil_div(multiple * self.every, self.steps_per_update), updates + 1)

    def fires(self, updates: int) -> bool:
        """Whether the period fires at update number `updates` (counted from 1)."""
        return updates > 0 and self.due(updates - 1) == updates


def _ceil_div(a: float, b: int) -> int:
    return int(-(-a // b))
