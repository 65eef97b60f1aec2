"""Run summary: what is said of a run before its first update: one line of what is trained how, and notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gymlab.core.clock import Clock
from gymlab.core.format import format_bytes
from gymlab.envs.registry import find_spec, resolve_id
from gymlab.envs.reward_shaping import Potential
from gymlab.envs.settings import EnvSettings
from gymlab.envs.transform import Transform
from gymlab.recipes.schema import Recipe
from gymlab.training.run_plan import RunPlan

if TYPE_CHECKING:
    from gymlab.session.build import EngineChoice, Parts


@dataclass(frozen=True)
class RunSummary:
    """The header line and the notes, and the recipe they are about."""

    recipe: Recipe
    header: str
    notes: list[str]

    def lines(self) -> list[str]:
        """As it is printed and logged."""
        return [self.header, *(f"note: {note}" for note in self.notes)]


def summarize_run(parts: Parts, notes: list[str], start: Clock) -> RunSummary:
    """The summary of a run that is ready to start, at this clock."""
    return RunSummary(parts.recipe, header_line(parts), [*notes, *_budget_notes(parts.plan, start)])


def header_line(parts: Parts) -> str:
    """A run's header line: recipe, engine, device, shape, budget, seed, goal, trackers and their projects."""
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


def choice_notes(recipe: Recipe, chosen: EngineChoice, limit: int) -> list[str]:
    """The engine and time limit where they differ from what the recipe says."""
    notes = [] if chosen.engine == "jax" else [f"{chosen.engine} engine: {chosen.engine_reason}"]
    if recipe.env.max_episode_steps is None and _no_registered_limit(recipe.env):
        notes.append(f"{recipe.env.id} has no time limit: episodes are cut after {limit} steps (env.max_episode_steps)")
    return notes


def shaping_notes(recipe: Recipe, transforms: Sequence[Transform]) -> list[str]:
    """Potential-based shaping keeps the best policy only with the algorithm's own discount."""
    algorithm = recipe.algorithm
    discount = algorithm.settings.gamma
    return [
        f"{type(shaping).__name__} shapes rewards with gamma {shaping.gamma:g}, {algorithm.name}.gamma is "
        f"{discount.source}: only with the same gamma does the best policy stay the best"
        for shaping in transforms
        if isinstance(shaping, Potential) and {float(shaping.gamma)} != set(discount.values)
    ]


def _budget_notes(plan: RunPlan, start: Clock) -> list[str]:
    """Where the budget ends, if not at the number in the recipe."""
    end = plan.after(start, plan.left(start)).at(plan.budget_clock)
    return [] if end == plan.budget else [f"the budget ends at {end} {plan.budget_clock}: updates are whole"]


def _no_registered_limit(env: EnvSettings) -> bool:
    spec = find_spec(resolve_id(env.id).id)
    return spec is None or (spec.max_episode_steps is None and "max_num_frames_per_episode" not in spec.kwargs)
