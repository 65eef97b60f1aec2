"""EnvPool's engine: the dynamics of Gymnasium's envs, repeatable, and resumed exactly where chance allows it."""

from __future__ import annotations

import json
from typing import Any

import gymnasium
import numpy as np
import pytest

from gymlab.core.errors import UserError
from gymlab.envs.engines.envpool import CHANCE_AT_RESETS, EnvPoolEngine
from gymlab.envs.settings import EnvSettings
from gymlab.recipes.resolve import resolve
from gymlab.session.choose_engine import make_engine
from tests.envs.trying import PPO, TINY, try_recipe
from tests.stepping import actions, dump, play

pytest.importorskip("envpool", reason="pip install 'gymlab[envpool]'")

MUJOCO = sorted(name for name in CHANCE_AT_RESETS if name.endswith("-v5"))


def engine(env: str, n: int = 3, seed: int = 5, *, threads: int = 0, **settings: Any) -> EnvPoolEngine:
    return EnvPoolEngine(EnvSettings(id=env, **settings), n, seed, threads=threads)


def _pendulum(inner: Any, obs: np.ndarray) -> None:
    inner.state = np.array([np.arctan2(obs[1], obs[0]), obs[2]])


def _acrobot(inner: Any, obs: np.ndarray) -> None:
    inner.state = np.array([np.arctan2(obs[1], obs[0]), np.arctan2(obs[3], obs[2]), obs[4], obs[5]])


def _plain(inner: Any, obs: np.ndarray) -> None:
    inner.state = np.array(obs, np.float64)


@pytest.mark.parametrize(
    ("env", "put", "atol"),
    [
        ("CartPole-v1", _plain, 1e-6),
        ("MountainCar-v0", _plain, 1e-6),
        ("MountainCarContinuous-v0", _plain, 1e-6),
        ("Pendulum-v1", _pendulum, 1e-5),
        ("Acrobot-v1", _acrobot, 1e-5),
    ],
)
def test_every_transition_is_gymnasiums(env: str, put: Any, atol: float) -> None:
    # Gymnasium's env is put into the state before each transition, as far as float32 tells it.
    gym: Any = gymnasium.make(env).unwrapped
    gym.reset(seed=0)
    with engine(env, 4) as pool:
        before = pool.reset().obs.copy()
        for move in actions(pool, 60):
            step = pool.step(move)
            for row in range(4):
                put(gym, before[row])
                gym.steps_beyond_terminated = None
                obs, reward, terminated, _, _ = gym.step(move[row])
                np.testing.assert_allclose(step.successor[row], obs, atol=atol)
                np.testing.assert_allclose(step.reward[row], reward, atol=1e-4)
                assert step.terminated[row] == terminated
            before = step.obs.copy()


def test_half_cheetahs_transitions_are_gymnasiums() -> None:
    pytest.importorskip("mujoco", reason="pip install 'gymlab[mujoco]'")
    pytest.importorskip("imageio", reason="pip install 'gymlab[mujoco]'")
    gym: Any = gymnasium.make("HalfCheetah-v5").unwrapped
    gym.reset(seed=0)
    with engine("HalfCheetah-v5", 2) as pool:
        before = pool.reset().obs.copy()
        for move in actions(pool, 20):
            step = pool.step(move)
            for row in range(2):
                gym.set_state(np.concatenate([[0.0], before[row, :8]]), before[row, 8:])
                obs, reward, *_ = gym.step(move[row])
                # Two builds of MuJoCo, and float32 between them: speeds are up to 20.
                np.testing.assert_allclose(step.successor[row], obs, atol=0.02)
                np.testing.assert_allclose(step.reward[row], reward, atol=0.02)
            before = step.obs.copy()


def test_the_same_seed_gives_the_same_whatever_the_threads() -> None:
    played = []
    for seed, threads in ((5, 1), (5, 2), (6, 1)):
        with engine("LunarLander-v3", 4, seed, threads=threads, max_episode_steps=40) as pool:
            first = dump(pool.reset())
            played.append([first, *play(pool, actions(pool, 100))])
    assert played[0] == played[1] != played[2]


def resumes(env: str, steps: int = 60, limit: int = 25) -> None:
    with engine(env, 3, max_episode_steps=limit) as pool, engine(env, 3, max_episode_steps=limit) as other:
        pool.reset()
        moves = actions(pool, steps + 20)
        play(pool, moves[:steps])
        kept = pool.snapshot()
        assert (kept["episode"] >= 1).all()
        assert kept["elapsed"].any()
        told: list[tuple[int, int]] = []
        back = other.restore(kept, lambda done, total: told.append((done, total)))
        assert back.exact, back.reason
        assert told
        again = other.snapshot()
        assert all(again[name].tobytes() == kept[name].tobytes() for name in kept)
        assert play(pool, moves[steps:]) == play(other, moves[steps:])


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1", "BipedalWalker-v3"])
def test_an_env_without_dice_in_its_steps_resumes_exactly(env: str) -> None:
    resumes(env)


@pytest.mark.slow
@pytest.mark.parametrize("env", sorted(CHANCE_AT_RESETS))
def test_every_env_that_is_said_to_resumes_exactly(env: str) -> None:
    if env in MUJOCO:
        pytest.importorskip("mujoco", reason="pip install 'gymlab[mujoco]'")
    resumes(env, steps=700, limit=300)


def test_one_that_begins_with_another_episode_resumes_exactly_too() -> None:
    with engine("CartPole-v1") as pool, engine("CartPole-v1") as other:
        start = pool.reset().obs.copy()
        assert (pool.reset(episode=7).obs != start).all()
        moves = actions(pool, 60)
        play(pool, moves[:40])
        assert other.restore(pool.snapshot()).exact
        assert play(pool, moves[40:]) == play(other, moves[40:])


def test_one_with_dice_in_its_steps_says_so_and_begins_episodes_that_were_not_seen() -> None:
    with engine("LunarLander-v3", max_episode_steps=20) as pool, engine("LunarLander-v3") as other:
        starts = {row.tobytes() for row in pool.reset().obs}
        for move in actions(pool, 70):
            step = pool.step(move)
            starts |= {row.tobytes() for row in step.obs[step.fresh]}
        kept = pool.snapshot()
        back = other.restore(kept)
        assert not back.exact
        assert back.reason == "EnvPool cannot put LunarLander-v3 back where it stood: new episodes began"
        assert back.step.fresh.all()
        assert starts.isdisjoint(row.tobytes() for row in back.step.obs)
        assert (other.snapshot()["episode"] > kept["episode"].max()).all()


def test_a_checkpoint_of_another_engine_or_shape_begins_new_episodes() -> None:
    with engine("CartPole-v1", 3) as pool, engine("CartPole-v1", 2) as fewer:
        pool.reset()
        kept = pool.snapshot()
        assert "holds 3 envs and this run has 2" in fewer.restore(kept).reason
        del kept["origin"]
        assert "another engine" in pool.restore(kept).reason


@pytest.mark.parametrize(
    ("recipe", "changes", "told"),
    [
        ("Taxi-v4", [], "EnvPool has no Taxi-v4"),
        ("Blackjack-v1", [], "Blackjack-v1 is another env there"),
        ("CartPole-v1:pixels", [], "'pixels' wraps the Gymnasium env"),
        ("LunarLander-v3", ["env.kwargs={gravity: -5}"], "'gravity' is for the Gymnasium env"),
        ("CartPole-v1", ["vectorization=processes"], "vectorization: processes"),
        ("CartPole-v1", ["env.on_error=restart"], "on_error: restart"),
    ],
)
def test_what_it_cannot_run_is_told(recipe: str, changes: list[str], told: str) -> None:
    with pytest.raises(UserError, match=f"engine: envpool cannot run this recipe .*{told}.*use engine: auto"):
        make_engine(resolve(recipe, ["engine=envpool", *changes]).recipe, 0, None)


def test_auto_never_takes_it() -> None:
    made, _ = make_engine(resolve("LunarLander-v3", ["vectorization=sync"]).recipe, 0, None)
    made.close()
    assert made.name == "gymnasium"


@pytest.mark.slow
def test_a_run_trains_evaluates_and_resumes_exactly() -> None:
    assert try_recipe("CartPole-v1:ppo", "engine=envpool", "hidden=[8]", *PPO) == []


@pytest.mark.slow
def test_a_run_that_cannot_resume_exactly_says_so_from_the_start(cli: Any) -> None:
    tiny = [*TINY, *PPO, "engine=envpool", "hidden=[8]", "eval.final_episodes=1", "eval.every=100%", "--full-budget"]
    assert cli("train", "LunarLander-v3:ppo", "--run-id", "cut", "--budget", "32", *tiny, "--json").code == 0
    first = json.loads((cli.folder / "runs/cut/manifest.json").read_text())
    assert "asked for; a resumed run will begin new episodes" in json.dumps(first)
    longer = cli("train", "--resume", "cut", "--budget", "64")
    assert longer.code == 0, longer.out + longer.err
    assert "resumed (not exact)" in longer.out
    (session,) = json.loads((cli.folder / "runs/cut/manifest.json").read_text())["sessions"]
    assert "EnvPool cannot put LunarLander-v3 back where it stood: new episodes began" in session["reasons"][0]
