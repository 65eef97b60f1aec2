"""Reachable goals: a note where no policy can reach `solved_at` or a return that stops the run."""

from __future__ import annotations

from typing import NamedTuple

from gymlab.envs.settings import EnvSettings
from gymlab.recipes.problems import COMMAND_LINE
from gymlab.recipes.schema import Recipe
from gymlab.recipes.yaml_source import Node


class BestReturn(NamedTuple):
    """An upper bound of the mean return, and what it follows from."""

    value: float
    reason: str


def unreachable_goal_note(recipe: Recipe, solved_at_source: str, written: Node) -> str | None:
    """One note about the goals above what the env can give, each with the place it comes from.

    A `stop` return above what the env gives under any settings is no goal: it is how a recipe says "do not stop".
    """
    best = best_return(recipe.env)
    unchanged = best_return(EnvSettings(id=recipe.env.id))
    if best is None or unchanged is None:
        return None
    stops = {"stop.eval_return": recipe.stop.eval_return, "stop.train_return": recipe.stop.train_return}
    goals = {key: goal for key, goal in stops.items() if goal is not None and goal <= unchanged.value}
    if recipe.env.solved_at is not None:
        goals = {"env.solved_at": recipe.env.solved_at, **goals}
    above = [
        f"{key} {goal:g} ({solved_at_source if key == 'env.solved_at' else _source(written, key)})"
        for key, goal in goals.items()
        if goal > best.value
    ]
    if not above:
        return None
    return f"{' and '.join(above)} cannot be reached: the best mean return possible is {best.value:g} ({best.reason})"


def best_return(env: EnvSettings) -> BestReturn | None:
    """The best mean return as far as the env's optimum and rewards tell; None where the recipe changes these."""
    from gymlab.envs.make import time_limit
    from gymlab.envs.registry import KNOWN_OPTIMA
    from gymlab.envs.wrapper_stacks import keeps_returns
    from gymlab.metrics.bounds import REWARDS, return_range

    if env.kwargs or (env.id not in KNOWN_OPTIMA and env.id not in REWARDS) or not keeps_returns(env):
        return None
    limit = time_limit(env)
    optimum = KNOWN_OPTIMA.get(env.id)
    if optimum is not None and _optimum_holds(env, limit, optimum):
        return BestReturn(optimum, "the env's optimum")
    possible = return_range(env.id, limit)
    if possible is None:
        return None
    return BestReturn(possible[1], f"by the env's rewards, in episodes of at most {limit} steps")


def _optimum_holds(env: EnvSettings, limit: int, optimum: float) -> bool:
    """An optimum is known within the registered time limit.

    Where each step costs something a longer limit changes nothing, but a shorter one ends the costs early. Without a
    registered limit the optimal episode must fit.
    """
    from gymlab.envs.make import time_limit
    from gymlab.envs.registry import find_spec
    from gymlab.metrics.bounds import REWARDS

    rewards = REWARDS.get(env.id)
    costs = rewards is not None and rewards.high < 0 and rewards.once_high == 0
    spec = find_spec(env.id)
    if costs and (spec is None or spec.max_episode_steps is None):
        return limit >= -optimum
    registered = time_limit(EnvSettings(id=env.id))
    return limit >= registered if costs else limit == registered


def _source(written: Node, key: str) -> str:
    node = written.get(*key.split("."))
    return "override" if node is not None and node.location == COMMAND_LINE else "recipe"
