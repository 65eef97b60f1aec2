"""MinAtar: what the package plays, seeded so that an episode is a function of its seed and actions."""

from __future__ import annotations

import logging

import gymnasium
import numpy as np
import pytest

from gymlab.core.errors import UserError
from gymlab.envs import registry
from gymlab.envs.engines.gymnasium import GymnasiumEngine
from gymlab.envs.games import minatar
from gymlab.envs.make import make_env
from gymlab.envs.registry import resolve_id
from gymlab.envs.settings import EnvSettings
from tests.running import gymlab, last_json
from tests.stepping import actions, play

pytest.importorskip("minatar", reason="pip install 'gymlab[minatar]'")

RANDOM_RETURN = {"Breakout": 0.40, "SpaceInvaders": 3.98}  # mean of 300 games with random moves


@pytest.mark.parametrize("name", minatar.GAMES)
def test_every_game_is_the_packages_own(name: str) -> None:
    # The same seed and moves, beside the package's class without any of ours around it.
    handlers = list(logging.getLogger().handlers)
    env = gymnasium.make(resolve_id(f"MinAtar/{name}-v1").id, render_mode="rgb_array")
    assert logging.getLogger().handlers == handlers
    theirs = minatar._environment()(minatar.GAMES[name])
    theirs.seed(4)
    theirs.reset()
    obs, _ = env.reset(seed=4)
    assert (obs == theirs.state()).all()
    assert obs.dtype == bool
    allowed = theirs.minimal_action_set()
    assert env.action_space.n == len(allowed)
    rng = np.random.default_rng(0)
    for _ in range(150):
        move = rng.integers(len(allowed))
        obs, reward, over, _, _ = env.step(move)
        assert (reward, over) == theirs.act(allowed[move])
        assert (obs == theirs.state()).all()
        if over:
            break
    assert env.render().shape == (160, 160, 3)
    assert make_env(EnvSettings(id=f"MinAtar/{name}-v0")).action_space.n == 6


def test_nothing_of_an_episode_reaches_into_the_next() -> None:
    # The package's sticky actions remember the last action of the game before: half of all first steps would differ.
    settings = EnvSettings(id="MinAtar/Breakout-v1", kwargs={"sticky_action_prob": 0.5})
    with GymnasiumEngine(settings, 4, 5) as engine, GymnasiumEngine(settings, 4, 5) as other:
        engine.reset()
        moves = actions(engine, 120)
        play(engine, moves[:100])
        kept = engine.snapshot()
        assert (kept["episode"] > 1).all()
        then = play(engine, moves[100:])
        restored = other.restore(kept)
        assert restored.exact, restored.reason
        assert play(other, moves[100:]) == then


def test_a_missing_package_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    found = registry.importlib.util.find_spec
    monkeypatch.setattr(
        registry.importlib.util, "find_spec", lambda name, *rest: None if name == "minatar" else found(name, *rest)
    )
    with pytest.raises(UserError, match=r"MinAtar/Breakout-v1 needs an extra package: pip install 'gymlab\[minatar\]'"):
        resolve_id("MinAtar/Breakout-v1")
    with pytest.raises(UserError, match="did you mean 'MinAtar/Breakout-v1'"):
        resolve_id("MinAtar/Breakout-v9")


@pytest.mark.slow
@pytest.mark.parametrize("game", RANDOM_RETURN)
def test_a_picture_recipe_learns_on_the_cpu(game: str, folder) -> None:
    for seed in range(3):
        budget = ("--budget", "200k", "--seed", seed, "--full-budget", "--set", "eval.every=100%")
        result = last_json(gymlab("train", f"MinAtar/{game}-v1", *budget, "--json", cwd=folder))
        assert result["eval"]["greedy"]["mean"] >= 3 * RANDOM_RETURN[game], (seed, result["eval"])
