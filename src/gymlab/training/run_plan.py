"""The plan of a run: size of an update, number of updates, scheduled hyperparameters; and the rows that come of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gymlab.core.clock import Clock, StepClock
from gymlab.core.types import Array
from gymlab.metrics.run_totals import RunTotals
from gymlab.training.events import UpdateRow
from gymlab.training.trainer import UpdateMetrics


@dataclass(frozen=True)
class RunPlan:
    """The numbers of a run, as functions of its clock: earlier updates of the run may have had another size."""

    steps_per_update: int  # vec_steps
    n_envs: int  # of all env groups
    budget: int  # steps
    budget_clock: StepClock
    stop_return: float  # training return at which compiled calls end early; inf for never
    hp_names: list[str]
    hyperparameters: Callable[[float], Array]  # progress -> scheduled values, in the order of hp_names
    progress: Callable[[Clock], float]  # 0 to 1: how far a run is towards the end of its schedules

    def scheduled(self, clock: Clock, count: int) -> Array:
        """(count, hyperparameters + 1) scheduled values of the updates after `clock`; the last column is progress."""
        progress = [self.progress(self.after(clock, i)) for i in range(count)]
        return np.stack([np.append(self.hyperparameters(share), np.float32(share)) for share in progress])

    def after(self, clock: Clock, updates: int) -> Clock:
        """The clock of steps that many updates later."""
        vec_steps = updates * self.steps_per_update
        return clock._replace(
            updates=clock.updates + updates,
            vec_steps=clock.vec_steps + vec_steps,
            env_steps=clock.env_steps + vec_steps * self.n_envs,
        )

    def left(self, clock: Clock) -> int:
        """How many updates the budget has left."""
        size = self.steps_per_update * (self.n_envs if self.budget_clock == "env_steps" else 1)
        return max(0, -(-(self.budget - clock.at(self.budget_clock)) // size))

    def last_update(self, clock: Clock) -> int:
        """The number of the update that ends the budget."""
        return clock.updates + self.left(clock)

    def stamp(
        self, clock: Clock, rows: list[UpdateMetrics], hp: Array, seconds: float, totals: RunTotals
    ) -> tuple[UpdateRow, ...]:
        """The rows of the updates after `clock`, each with its clock, hyperparameters, progress and run totals.

        `seconds` are the run's after the last row; those since `clock` are shared equally among the rows.
        """
        stamped = []
        share = (seconds - clock.seconds) / len(rows)
        assert len(rows) <= len(hp), "more updates than were asked for"
        for row, values in zip(rows, hp, strict=False):
            row |= {f"hp/{name}": float(value) for name, value in zip(self.hp_names, values[:-1], strict=True)}
            assert 0 <= row["roll/episodes"] <= self.steps_per_update * self.n_envs, "more episodes than steps"
            assert row.gradient_steps >= 0, "gradient steps are counted from 0"
            clock = self.after(clock, 1)._replace(
                episodes=clock.episodes + int(row["roll/episodes"]),
                seconds=clock.seconds + share,
                gradient_steps=clock.gradient_steps + row.gradient_steps,
            )
            row["time/progress"] = min(1.0, clock.at(self.budget_clock) / self.budget)
            totals.add(row, clock.updates)
            stamped.append(UpdateRow(clock, row, row.histograms))
        return tuple(stamped)
