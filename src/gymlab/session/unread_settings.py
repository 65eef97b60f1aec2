"""Unread settings: those a recipe sets that nothing in this run reads, told once when it starts.

Each field declares by `ReadWhen` on what its being read depends; here is what the names mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import numpy as np
from gymnasium import spaces

from gymlab.algorithms.settings import OPTIMIZER_NAMES
from gymlab.core.settings import ReadWhen, Settings
from gymlab.core.types import Space, Spaces
from gymlab.networks.normalizer import Normalizer
from gymlab.recipes.schema import BLOCKS, Recipe


class ReadingRun(NamedTuple):
    """What decides whether a setting is read."""

    recipe: Recipe
    spaces: Spaces  # as the policy sees them
    engine: str


class ReadCondition(NamedTuple):
    """A condition under which settings are read, and the reason to give where it does not hold."""

    holds: Callable[[ReadingRun], bool]
    otherwise: str


def unread_settings_note(recipe: Recipe, spaces: Spaces, engine: str) -> str | None:
    """One note that names the settings which differ from their defaults and are not read, and why."""
    facts = ReadingRun(recipe, spaces, engine)
    unread = [
        f"{key} ({CONDITIONS[name].otherwise})"
        for key, name in _conditional(recipe)
        if not CONDITIONS[name].holds(facts)
    ]
    return f"nothing in this run reads {', '.join(unread)}" if unread else None


def _conditional(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """The key and the condition of each setting that declares one and differs from its default."""
    blocks: dict[str, Settings] = {"": recipe, **{name: getattr(recipe, name) for name in BLOCKS}}
    blocks[recipe.algorithm.name] = recipe.algorithm.settings
    for block, settings in blocks.items():
        for name, info in type(settings).model_fields.items():
            conditions = [item.condition for item in info.metadata if isinstance(item, ReadWhen)]
            if conditions and getattr(settings, name) != info.get_default(call_default_factory=True):
                yield f"{block}.{name}".removeprefix("."), conditions[0]


def _normalizes_observations(facts: ReadingRun) -> bool:
    normalizer = Normalizer(facts.spaces.observation, obs=True, reward=False, clip=1.0)
    return bool(jax.tree.leaves(normalizer.init()))


def _normalizes(facts: ReadingRun) -> bool:
    settings = facts.recipe.normalize
    return settings.reward or (settings.obs and _normalizes_observations(facts))


def _has_hidden_layers(facts: ReadingRun) -> bool:
    policy = facts.recipe.policy
    return bool(policy.hidden or (policy.value_hidden and not policy.shared))


def _acts_continuously(facts: ReadingRun) -> bool:
    return _has_floats(facts.spaces.action)


def _has_floats(space: Space) -> bool:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        return any(_has_floats(part) for part in parts)
    return isinstance(space, spaces.Box) or (space.dtype is not None and np.issubdtype(space.dtype, np.floating))


CONDITIONS = {
    "float observations": ReadCondition(_normalizes_observations, "no observation is a vector of floats"),
    "normalization": ReadCondition(_normalizes, "nothing is normalised"),
    "hidden layers": ReadCondition(_has_hidden_layers, "there is no hidden layer; encoders have their own activation"),
    "continuous actions": ReadCondition(_acts_continuously, "actions are discrete"),
    "gsde": ReadCondition(
        lambda facts: _acts_continuously(facts) and facts.recipe.policy.exploration == "gsde",
        "policy.exploration is not gsde, or actions are discrete",
    ),
    "separate networks": ReadCondition(
        lambda facts: not facts.recipe.policy.shared, "policy.shared: both heads have one trunk"
    ),
    "host engine": ReadCondition(lambda facts: facts.engine != "jax", "the jax engine steps compiled envs"),
    "named optimizer with epsilon": ReadCondition(
        lambda facts: facts.recipe.algorithm.settings.optimizer in set(OPTIMIZER_NAMES) - {"sgd"},
        "this optimizer has no such epsilon",
    ),
    "optimizer with moments": ReadCondition(
        lambda facts: facts.recipe.algorithm.settings.optimizer != "sgd", "sgd has no moments"
    ),
    "value baseline": ReadCondition(
        lambda facts: getattr(facts.recipe.algorithm.settings, "baseline", "value") == "value",
        "the baseline is not a value network",
    ),
}
