"""What every console is, and the line that opens a run."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from gymlab.core.format import format_bytes
from gymlab.training.events import Feature


class Console(Feature):
    """The quiet base: announces nothing, shows nothing."""

    name = "console"

    def __init__(self, notes: list[str]) -> None:
        self.notes = notes

    def announce(self, parts: Any, notes: list[str]) -> None:
        """Called once, when everything is ready, with the run's parts."""

    def __enter__(self) -> Console:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the terminal back."""


def first_line(parts: Any) -> str:
    """What is about to happen: recipe, engine, device, shape, budget, seed, goal, trackers and their projects."""
    recipe = parts.recipe
    chosen = parts.chosen
    engine = f"{chosen.engine} engine" + (" (evaluated on Gymnasium)" if chosen.engine == "jax" else "")
    goal = recipe.stop.eval_return if recipe.stop.eval_return is not None else recipe.env.solved_at
    fields = [
        recipe.name,
        engine,
        chosen.device,
        f"{recipe.n_envs}x{recipe.n_steps} ({format_bytes(parts.rollout_bytes)})",
        str(recipe.budget),
        f"seed {parts.seed}",
        f"stops at {goal:g}" if goal is not None and not parts.full_budget else "uses the whole budget",
        *parts.trackers,
    ]
    return " · ".join(fields)
