"""The plan of a run: size of an update, number of updates, scheduled hyperparameters; and the rows that come of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gymlab.core.clock import Clock
from gymlab.core.types import Array
from gymlab.metrics.run_totals import RunTotals
from gymlab.training.events import UpdateRow
from gymlab.training.trainer import UpdateMetrics


@dataclass(frozen=True)
class RunPlan:
    """The numbers of a run."""

    steps_per_update: int  # vec_steps
    n_envs: int
    updates: int  # in the budget
    stop_return: float  # training return at which compiled calls end early; inf for never
    hp_names: list[str]
    hyperparameters: Callable[[int], Array]  # update number (from 0) -> scheduled values, in the order of hp_names

    def scheduled(self, first: int, count: int) -> Array:
        """(count, hyperparameters) values of the updates from number `first` on."""
        return np.stack([self.hyperparameters(first + i) for i in range(count)])

    def _after_update(self, clock: Clock, row: UpdateMetrics) -> Clock:
        """The clock one update later; its seconds are unchanged."""
        vec_steps = clock.vec_steps + self.steps_per_update
        taken = row.get("opt/gradient_steps", 0.0)  # of a custom algorithm that does not count them: none
        return Clock(
            updates=clock.updates + 1,
            vec_steps=vec_steps,
            env_steps=vec_steps * self.n_envs,
            episodes=clock.episodes + int(row["roll/episodes"]),
            seconds=clock.seconds,
            gradient_steps=clock.gradient_steps + (0 if math.isnan(taken) else int(taken)),  # NaN: a skipped update
        )

    def stamp(
        self, clock: Clock, rows: list[UpdateMetrics], hp: Array, seconds: float, totals: RunTotals
    ) -> tuple[UpdateRow, ...]:
        """The rows of the updates after `clock`, each with its clock, hyperparameters, progress and run totals.

        `seconds` are the run's after the last row; those since `clock` are shared equally among the rows.
        """
        stamped = []
        share = (seconds - clock.seconds) / len(rows)
        for row, values in zip(rows, hp, strict=False):
            row |= {f"hp/{name}": float(value) for name, value in zip(self.hp_names, values, strict=True)}
            later = self._after_update(clock, row)
            clock = later._replace(seconds=clock.seconds + share)
            row["time/progress"] = min(1.0, clock.updates / self.updates)
            totals.add(row, clock.updates)
            stamped.append(UpdateRow(clock, row, row.histograms))
        return tuple(stamped)
