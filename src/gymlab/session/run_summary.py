"""Run summary: what is said of a run before its first update: one line of what is trained how, and notes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gymlab.core.format import format_bytes
from gymlab.envs.registry import find_spec, resolve_id
from gymlab.envs.settings import EnvSettings
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


def summarize_run(parts: Parts, notes: list[str]) -> RunSummary:
    """The summary of a run that is ready to start."""
    return RunSummary(parts.recipe, header_line(parts), notes)


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


def choice_notes(recipe: Recipe, chosen: EngineChoice, plan: RunPlan, limit: int) -> list[str]:
    """The engine, time limit and budget where they differ from what the recipe says."""
    notes = [] if chosen.engine == "jax" else [f"{chosen.engine} engine: {chosen.engine_reason}"]
    steps = plan.updates * plan.steps_per_update
    steps *= plan.n_envs if recipe.budget.clock == "env_steps" else 1
    if recipe.env.max_episode_steps is None and _no_registered_limit(recipe.env):
        notes.append(f"{recipe.env.id} has no time limit: episodes are cut after {limit} steps (env.max_episode_steps)")
    if steps != recipe.budget.count:
        notes.append(f"the budget ends at {steps} {recipe.budget.clock}: updates are whole")
    return notes


def _no_registered_limit(env: EnvSettings) -> bool:
    spec = find_spec(resolve_id(env.id).id)
    return spec is None or (spec.max_episode_steps is None and "max_num_frames_per_episode" not in spec.kwargs)
