"""The run that alert rules judge: its settings by key, the bounds of its metrics, its goal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property

from gymlab.core.clock import parse_number
from gymlab.core.schedules import parse_schedule
from gymlab.core.types import Json
from gymlab.metrics.bounds import Context, bounds
from gymlab.metrics.metric import Limits

MAX_JUDGED = 1000  # rows judged in a run; where there are more updates, every n-th is


class RunContext:
    """A run's settings and bounds; `noted` are bounds read from its manifest, where its spaces are not at hand."""

    def __init__(self, context: Context, noted: Mapping[str, Limits] | None = None, *, masked: bool = False) -> None:
        self.context = context
        self.settings = context.settings
        self.masked = masked  # some actions are forbidden at times
        self._limits: dict[str, Limits] = dict(noted or {})
        self._numbers: dict[str, float | None] = {}

    def limits(self, name: str) -> Limits:
        """The lowest and the highest possible value."""
        found = self._limits.get(name)
        if found is None:
            found = self._limits[name] = bounds(name, self.context)
        return found

    def width(self, name: str) -> float | None:
        """The distance between a metric's bounds; None where it has none."""
        low, high = self.limits(name)
        return high - low if math.isfinite(high - low) else None

    @cached_property
    def algorithm(self) -> str:
        """The name of the algorithm's block."""
        found = [key.rpartition(".")[0] for key in self.settings if key.endswith(".learning_rate")]
        return found[0] if found else "ppo"

    def key(self, leaf: str) -> str:
        """The full key of one of the algorithm's settings."""
        return f"{self.algorithm}.{leaf}"

    def written(self, key: str) -> Json:
        """A setting as written in the recipe, by its full key or its leaf name in the algorithm's block."""
        return self.settings.get(key, self.settings.get(self.key(key)))

    def number(self, key: str) -> float | None:
        """The highest value of a setting; None where it is unset or not a number."""
        if key not in self._numbers:
            self._numbers[key] = self._highest(key)
        return self._numbers[key]

    def _highest(self, key: str) -> float | None:
        raw = self.written(key)
        if raw is None or isinstance(raw, bool):
            return None
        try:
            return max(parse_schedule(raw).values)
        except (ValueError, TypeError):
            return None

    @cached_property
    def goal(self) -> float | None:
        """The return at which the run counts as solved."""
        found = [self.settings.get(key) for key in ("env.solved_at", "stop.eval_return")]
        numbers = [float(value) for value in found if isinstance(value, int | float)]
        return min(numbers) if numbers else None

    def reached(self, returned: float) -> bool:
        """Whether a return is within 10 % of the goal: exploring costs some of it in training."""
        goal = self.goal
        return goal is not None and returned >= goal - 0.1 * abs(goal)

    @cached_property
    def choices(self) -> float | None:
        """The highest possible entropy of discrete actions; None for continuous ones or where it is unknown."""
        low, high = self.limits("opt/entropy")
        return high if low == 0.0 and math.isfinite(high) else None

    @cached_property
    def samples(self) -> int | None:
        """Transitions of one rollout."""
        n_envs, n_steps = (self.settings.get(key) for key in ("n_envs", "n_steps"))
        return n_envs * n_steps if isinstance(n_envs, int) and isinstance(n_steps, int) else None

    @cached_property
    def updates(self) -> int | None:
        """Updates in the budget."""
        count, _, clock = str(self.settings.get("budget", "")).partition(" ")
        value = parse_number(count)
        samples = self.samples
        n_steps = self.settings.get("n_steps")
        if not isinstance(value, int | float) or samples is None or not isinstance(n_steps, int):
            return None
        return math.ceil(value / (n_steps if clock == "vec_steps" else samples))

    @cached_property
    def vec_steps(self) -> int | None:
        """Steps of each env in the budget."""
        n_steps = self.settings.get("n_steps")
        return None if self.updates is None or not isinstance(n_steps, int) else self.updates * n_steps

    @cached_property
    def every(self) -> int:
        """Every how many updates one is judged."""
        return max(1, (self.updates or 0) // MAX_JUDGED)
