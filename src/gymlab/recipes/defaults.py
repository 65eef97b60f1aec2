"""What a recipe leaves open: chosen from the env's spaces and its registration."""

from __future__ import annotations

from typing import Any, NamedTuple

from gymlab.algorithms.settings import AlgorithmSettings
from gymlab.core.clock import parse_number
from gymlab.envs.settings import EnvSettings
from gymlab.recipes.problems import COMMAND_LINE
from gymlab.recipes.yaml_source import Node, made


class Threshold(NamedTuple):
    """The return that counts as solved, and who says so."""

    value: float | None
    source: str  # recipe, override, spec or none


def fill(variant: Node, defaults: dict[str, Any]) -> Node:
    """The variant with each default where it says nothing."""
    merged = dict(variant.value)
    for key, value in defaults.items():
        if key not in merged or merged[key].value is None:
            merged[key] = made(value, variant.place)
    return Node(merged, variant.place)


def n_steps(settings: type[AlgorithmSettings], variant: Node, env_id: str) -> int:
    """Steps per update where a recipe does not say: the algorithm's habit, or one time limit."""
    from gymlab.envs.make import time_limit

    if settings.default_n_steps is not None:
        return settings.default_n_steps
    written = variant.get("env", "max_episode_steps")
    limit = parse_number(written.value) if written is not None else None
    if isinstance(limit, int | float) and not isinstance(limit, bool) and 1 <= limit <= 10**6:
        return int(limit)
    return time_limit(EnvSettings(id=env_id))


def from_spaces(env: EnvSettings) -> dict[str, Any]:
    """For an env without a recipe. Makes it once; continuous control wants normalising and a longer run."""
    from gymnasium.spaces import Box

    from gymlab.envs.make import make_env

    made_env = make_env(env)
    try:
        continuous = isinstance(made_env.action_space, Box)
    finally:
        made_env.close()
    return {"budget": "1M", "normalize": {"obs": True, "reward": True}} if continuous else {}


def threshold(env: EnvSettings, written: Node | None) -> Threshold:
    """`solved_at`: an override, else the recipe (the variant before the env block), else the registration."""
    from gymlab.envs.registry import spec_threshold

    if env.solved_at is not None:
        return Threshold(
            env.solved_at, "override" if written is not None and written.place == COMMAND_LINE else "recipe"
        )
    registered = spec_threshold(env.id)
    return Threshold(registered, "none" if registered is None else "spec")


def unreachable(env: EnvSettings, solved_at: Threshold) -> str | None:
    """A warning where no policy can reach the threshold; an env that was changed has an optimum we do not know."""
    from gymlab.envs.registry import KNOWN_OPTIMA

    best = KNOWN_OPTIMA.get(env.id)
    if best is None or solved_at.value is None or solved_at.value <= best or env.kwargs or env.wrappers:
        return None
    return f"solved_at {solved_at.value:g} ({solved_at.source}) is above the best mean return possible, {best:g}"
