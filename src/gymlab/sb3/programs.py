"""What was compiled once in this process serves every model with the same settings: seeds in a loop, a loaded file."""

from __future__ import annotations

from functools import lru_cache

from gymlab.core.types import Spaces
from gymlab.recipes.project_settings import cache_folder
from gymlab.recipes.schema import Recipe
from gymlab.session.build import SMALL_NETWORK, Parts, build, make_agent
from gymlab.session.jax_setup import choose_device, set_up_jax
from gymlab.session.predictor import CompiledAgent, compile_agent

_KEPT = 16  # programs of each kind


class _Key:
    """Settings that are equal when they read the same."""

    def __init__(self, recipe: Recipe, spaces: Spaces | None = None) -> None:
        self.recipe = recipe
        self.spaces = spaces
        self._text = f"{recipe.model_dump_json()} {spaces}"

    def __hash__(self) -> int:
        return hash(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self._text == other._text


def use_device(recipe: Recipe) -> None:
    """Make the device of a recipe JAX's default again: another model may have chosen otherwise."""
    small = max(recipe.policy.hidden, default=0) <= SMALL_NETWORK
    choose_device(recipe.device, host_engine=recipe.engine != "jax", small=small)


def acting(recipe: Recipe, spaces: Spaces) -> CompiledAgent:
    """How a recipe's policy acts in envs with these spaces."""
    set_up_jax(cache_folder())
    return _acting(_Key(recipe, spaces))


def compiled_parts(recipe: Recipe) -> Parts:
    """The parts of a run on a compiled env: pure functions, so that several models may use the same ones."""
    return _compiled_parts(_Key(recipe))


@lru_cache(_KEPT)
def _acting(key: _Key) -> CompiledAgent:
    assert key.spaces is not None
    agent = make_agent(key.recipe, key.spaces)
    n_envs = key.recipe.n_envs
    return compile_agent(agent, n_envs)


@lru_cache(_KEPT)
def _compiled_parts(key: _Key) -> Parts:
    return build(key.recipe, 0)
