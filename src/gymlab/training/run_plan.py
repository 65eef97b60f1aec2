"""The plan of a run: size of an update, number of updates, scheduled hyperparameters; and the rows that come of it."""

from __future__ import annotations

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

    def after(self, clock: Clock, updates: int, episodes: float) -> Clock:
        """The clock that many updates later; its seconds are unchanged."""
        vec_steps = clock.vec_steps + updates * self.steps_per_update
        finished = clock.episodes + int(episodes)
        return Clock(clock.updates + updates, vec_steps, vec_steps * self.n_envs, finished, clock.seconds)

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
            later = self.after(clock, 1, row["roll/episodes"])
            clock = later._replace(seconds=clock.seconds + share)
            row["time/progress"] = min(1.0, clock.updates / self.updates)
            totals.add(row, clock.updates)
            stamped.append(UpdateRow(clock, row, row.histograms))
        return tuple(stamped)
