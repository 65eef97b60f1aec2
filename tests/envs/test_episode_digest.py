"""The digest of an episode: equal for equal episodes however it was fed, another one where anything differs."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from gymlab.core.types import Spaces
from gymlab.envs.episode_digest import MOST_STEPS
from gymlab.envs.step_buffer import StepBuffer
from tests.stepping import actions, play, sync

pytestmark = pytest.mark.fast

MIXED = spaces.Dict(
    a=spaces.Box(-1, 1, (3,), np.float32), b=spaces.Discrete(5), c=spaces.Box(0, 255, (70, 70, 2), np.uint8)
)


def episode(n: int, steps: int, *, keeps: bool, space: spaces.Space = MIXED, change: str = "") -> list[int]:
    """Digests after some random steps of n envs; env 0 begins anew after every 7, env 1 after MOST_STEPS + 3."""
    buffer = StepBuffer(Spaces(space, spaces.Discrete(2), False, 10**6), n)
    buffer.digest.keeps = keeps
    rng = np.random.default_rng(1)

    def draw(arrays: list[np.ndarray]) -> None:
        for array in arrays:
            array[...] = rng.integers(0, 100, array.shape)

    draw(buffer.obs_leaves)
    for row in range(n):
        buffer.digest.begin(row)
    for t in range(steps):
        draw([*buffer.successor_leaves, buffer.step.reward])
        buffer.step.terminated[:] = rng.random(n) < 0.1
        if t == steps // 2 and change == "reward":
            buffer.step.reward[2] += 1
        elif t == steps // 2 and change == "swap":
            first = buffer.successor_leaves[0]
            first[2, :2] = first[2, 1::-1]
        elif t == steps // 2 and change == "end":
            buffer.step.terminated[2] ^= True
        buffer.digest.add_all()
        for obs, successor in zip(buffer.obs_leaves, buffer.successor_leaves, strict=True):
            obs[...] = successor
        for row, every in ((0, 7), (1, MOST_STEPS + 3)):
            if t % every == every - 1:
                buffer.digest.begin(row)
    return [int(value) for value in buffer.digest.current()]


@pytest.mark.parametrize("steps", [0, 1, 20, MOST_STEPS, 2 * MOST_STEPS + 10])
def test_steps_that_are_kept_give_what_steps_hashed_at_once_give(steps: int) -> None:
    small = spaces.Box(-1, 1, (3,), np.float32)
    assert episode(3, steps, keeps=True, space=small) == episode(3, steps, keeps=False, space=small)


@pytest.mark.parametrize("change", ["reward", "swap", "end"])
def test_whatever_differs_on_the_way_shows_in_the_digest_of_its_env_alone(change: str) -> None:
    one, other = episode(4, 40, keeps=False), episode(4, 40, keeps=False, change=change)
    assert [a == b for a, b in zip(one, other, strict=True)] == [True, True, False, True]


def test_an_env_that_rests_keeps_its_digest() -> None:
    with sync("CartPole-v1", 3) as together, sync("CartPole-v1", 3) as in_turn:
        moves = actions(together, 20)
        for engine in (together, in_turn):
            engine.reset()
        for move in moves:
            together.step(move)
            for row in range(3):  # as after the loss of a worker, one env at a time
                in_turn.step(move, np.arange(3) == row)
        assert together.snapshot()["digest"].tolist() == in_turn.snapshot()["digest"].tolist()


class Luck(gymnasium.Env):
    """Its observation is a clock; its reward is drawn from NumPy's global generator, which no seed of ours reaches."""

    observation_space = spaces.Box(0, 100, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.full(1, self.t, np.float32), float(np.random.random()), self.t == 100, False, {}


def test_a_replay_with_other_rewards_is_not_called_exact() -> None:
    with (
        sync("tests.envs.test_episode_digest:Luck", 2) as engine,
        sync("tests.envs.test_episode_digest:Luck", 2) as other,
    ):
        engine.reset()
        play(engine, actions(engine, 30))
        restored = other.restore(engine.snapshot())
        assert not restored.exact
        assert "other observations, rewards or endings" in restored.reason
