"""Interactive training without a run: the compiled program of training, with the hyperparameters of the sliders."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import cast

import jax
import numpy as np

from gymlab.core.clock import Clock
from gymlab.core.errors import UserError, suggestion
from gymlab.recipes.resolve import resolve
from gymlab.session.build import build
from gymlab.training.state import Policy
from gymlab.web.playground.games_and_sliders import GAMES
from gymlab.web.workers.answers import PlaygroundReport, PlaygroundRow

CALL_SECONDS = 0.2  # target duration of a call, so that sliders act soon
SHOWN = ("roll/return_mean", "roll/length_mean", "opt/entropy", "opt/approx_kl", "opt/value_loss", "opt/loss")
_COMPILED = "/jax/core/compile/backend_compile_duration"


class PlaygroundTrainer:
    """Trains one game. Hyperparameters change at the next update, without recompilation."""

    def __init__(self, game: str, seed: int = 0) -> None:
        if game not in GAMES:
            raise UserError(f"unknown game '{game}': {suggestion(game, GAMES)}")
        chosen = GAMES[game]
        self.parts = build(resolve(chosen.recipe, chosen.overrides).recipe, seed)
        self.compilations = 0  # by updates; those of anything else do not count
        compilations()
        start = self.parts.plan.hyperparameters(0.0)
        self.values = {name: float(x) for name, x in zip(self.parts.plan.hp_names, start, strict=True)}
        self._clock = Clock()
        self._pace = 0.0
        self.state = self.parts.program.start(seed)

    def set(self, name: str, value: float) -> None:
        """Set a hyperparameter from the next update on."""
        if name not in self.values:
            raise UserError(f"unknown number '{name}': {suggestion(name, self.values)}")
        if not (math.isfinite(value) and value >= 0):
            raise UserError(f"{name}={value} must be a number of at least 0")
        self.values[name] = float(value)

    def advance(self) -> PlaygroundReport:
        """Run some updates; their metrics."""
        count = max(1, min(self.parts.program.most, int(CALL_SECONDS / self._pace) if self._pace else 1))
        table = self.parts.plan.scheduled(self._clock, count)
        table[:, :-1] = list(self.values.values())
        before = self.policy
        compiled = compilations()
        began = time.perf_counter()
        done = self.parts.program.advance(self.state, self._clock, table, math.inf)
        self._pace = 0.0 if self.updates == 0 else (time.perf_counter() - began) / len(done.rows)
        self.compilations += compilations() - compiled
        first = self.updates
        self.state = done.state
        steps = sum(row.gradient_steps for row in done.rows)
        clock = self.parts.plan.after(self._clock, len(done.rows))
        self._clock = clock._replace(gradient_steps=clock.gradient_steps + steps)
        size = self.parts.plan.steps_per_update * self.parts.plan.n_envs
        return {
            "updates": self.updates,
            "env_steps": self.updates * size,
            "rows": [_shown((first + i + 1) * size, row) for i, row in enumerate(done.rows)],
            "moved": distance(before, self.policy),
            "compilations": self.compilations,
            "values": dict(self.values),
        }

    @property
    def updates(self) -> int:
        return self._clock.updates

    @property
    def policy(self) -> Policy:
        return self.parts.agent.policy(self.state)


def _shown(env_steps: int, row: Mapping[str, float]) -> PlaygroundRow:
    return cast("PlaygroundRow", (env_steps, *map(_number, map(row.get, SHOWN))))


def distance(before: Policy, after: Policy) -> float:
    """L2 distance between the weights of two policies."""
    pairs = zip(jax.tree.leaves(before.weights), jax.tree.leaves(after.weights), strict=True)
    return math.sqrt(sum(float(np.sum((np.asarray(b) - np.asarray(a)) ** 2)) for a, b in pairs))


@lru_cache(maxsize=1)
def _counter() -> list[int]:
    """A count of compilations from the first call on."""
    found = [0]

    def hear(event: str, duration_secs: float, **_: str | int) -> None:
        del duration_secs
        found[0] += event == _COMPILED

    jax.monitoring.register_event_duration_secs_listener(hear)
    return found


def compilations() -> int:
    """Number of programs compiled, or read from the cache, since the first call."""
    return _counter()[0]


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
