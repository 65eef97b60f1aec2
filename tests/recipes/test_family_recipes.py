"""The recipes that ship: all that were asked for are there, and each trains, evaluates and resumes exactly."""

from __future__ import annotations

from pathlib import Path

import pytest

from gymlab.core.errors import UserError
from gymlab.envs.registry import resolve_id
from gymlab.recipes.resolve import resolve
from tests.envs.trying import PPO, try_recipe

pytestmark = pytest.mark.fast

WANTED = {
    "CartPole-v1": ["ppo", "a2c", "reinforce", "centred", "pixels"],
    "Acrobot-v1": ["ppo"],
    "MountainCar-v0": ["stack", "shaped", "counts"],
    "MountainCarContinuous-v0": ["ppo"],
    "Pendulum-v1": ["ppo"],
    "FrozenLake-v1": ["ppo"],
    "FrozenLake8x8-v1": ["ppo"],
    "CliffWalking-v1": ["ppo"],
    "Taxi-v4": ["ppo"],
    "Blackjack-v1": ["ppo"],
    "Bandit-v0": ["ppo", "drifting"],
    "LunarLander-v3": ["ppo", "reinforce", "shaped", "randomized"],
    "LunarLanderContinuous-v3": ["ppo"],
    "BipedalWalker-v3": ["ppo"],
    "HalfCheetah-v5": ["ppo"],
    "ALE/Pong-v5": ["objects", "objects-deterministic", "rgb", "rgb-deterministic"],
    "ALE/Breakout-v5": ["objects", "rgb"],
    "MinAtar/Breakout-v1": ["ppo"],
    "MinAtar/SpaceInvaders-v1": ["ppo"],
    "VizdoomBasic-v1": ["ppo"],
    "VizdoomHealthGathering-v1": ["ppo"],
    "Retro/Airstriker-Genesis-v0": ["ppo"],
}
# Smaller pictures for these networks: what is tried is that the parts fit together.
SMALLER = {
    "ALE/Pong-v5:rgb": "{atari: {episodic_life: true, size: [36, 36], stack: 2}}",
    "ALE/Pong-v5:rgb-deterministic": "{atari: {size: [36, 36], stack: 2, repeat_action_probability: 0.0}}",
    "ALE/Breakout-v5:rgb": "{atari: {episodic_life: true, size: [36, 36], stack: 2}}",
    "VizdoomBasic-v1:ppo": "{doom: {size: [36, 48], stack: 2}}",
    "VizdoomHealthGathering-v1:ppo": "{doom: {size: [36, 48], stack: 2}}",
}
IN_SLOW_SUITE = ("Vizdoom", "Retro/")  # their packages are installed by `make test-slow` alone
RECIPES = [
    pytest.param(f"{env}:{variant}", marks=pytest.mark.slow if env.startswith(IN_SLOW_SUITE) else ())
    for env, variants in WANTED.items()
    for variant in variants
]


def needs(recipe: str) -> None:
    """Skip where a package is missing, with what to install."""
    try:
        resolve_id(recipe.rpartition(":")[0])
    except UserError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_that_was_asked_for_is_written_down(recipe: str) -> None:
    needs(recipe)
    found = resolve(recipe)
    assert found.source is not None  # a file, not what is made up for any env
    assert found.recipe.env.actions  # each of which has a name


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_trains_evaluates_and_resumes_exactly(recipe: str, folder: Path) -> None:
    needs(recipe)
    changes = [f"env.wrappers=[{SMALLER[recipe]}]"] if recipe in SMALLER else []
    algorithm = resolve(recipe).recipe.algorithm.name
    assert try_recipe(recipe, *changes, *(PPO if algorithm == "ppo" else [])) == []
    assert list(folder.iterdir()) == []
