"""Evaluation counts what it should, no more and no less."""

import json

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest

from gymlab.core.rng import episode_seed
from gymlab.core.types import Decision
from gymlab.envs.engines.gymnasium import GymnasiumEngine
from gymlab.envs.ports.registry import find_port
from gymlab.envs.settings import EnvSettings
from gymlab.training.evaluation import WAYS, Evaluation, Evaluator, counted_episodes, exact_return

pytestmark = pytest.mark.fast

LEFT, DOWN, RIGHT = range(3)
SEEDS: list[int] = []


class Lengths(gym.Env):
    """Half of the episodes last 1 step, half 9; one reward a step. The true mean return is 5."""

    observation_space = gym.spaces.Box(0, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        SEEDS.append(seed)
        self.left = 1 if self.np_random.random() < 0.5 else 9
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.left -= 1
        return np.zeros(1, np.float32), 1.0 + float(action), self.left == 0, False, {}


def act(policy, obs, carry, key, greedy):
    """Greedy takes action 0 (reward 1 a step), sampled action 1 (reward 2 a step)."""
    action = jnp.where(greedy, 0, 1)
    return Decision(action, jnp.zeros(action.shape), carry, {})


@pytest.fixture
def evaluator():
    SEEDS.clear()
    settings = EnvSettings(id=f"{__name__}:Lengths")
    return Evaluator(
        lambda n, seed: GymnasiumEngine(settings, n, seed, evaluation=True, factory=lambda _: Lengths()),
        (), act, lambda n: (),
    )  # fmt: skip


def test_a_quota_per_env_is_unbiased_where_taking_the_first_to_finish_is_not(evaluator):
    evaluation = evaluator.evaluate({}, episodes=2000, seed=3, max_envs=50)
    score = evaluation.greedy
    error = score.std / np.sqrt(score.n)
    assert score.n == 2000
    assert abs(score.mean - 5.0) < 3 * error
    # The naive way, the first 50 episodes that 50 envs finish, sees mostly short ones.
    rng = np.random.default_rng(0)
    naive = []
    left = np.where(rng.random(50) < 0.5, 1, 9)
    length = left.copy()
    while len(naive) < 50:
        left -= 1
        for i in np.flatnonzero(left == 0):
            naive.append(length[i])
            length[i] = left[i] = 1 if rng.random() < 0.5 else 9
    assert np.mean(naive[:50]) < 3.5


def test_greedy_and_sampled_are_counted_apart(evaluator):
    evaluation = evaluator.evaluate({}, episodes=10, seed=0, max_envs=4)
    assert evaluation.greedy.n == evaluation.sampled.n == 10
    assert evaluation.greedy.reward_per_step == 1.0
    assert evaluation.sampled.reward_per_step == 2.0
    assert evaluation.greedy.mean == evaluation.greedy.length
    assert evaluation.sampled.mean == 2 * evaluation.sampled.length


def test_by_steps_every_env_steps_as_often(evaluator):
    evaluation = evaluator.evaluate({}, episodes=10, seed=0, max_envs=10, steps=90)
    assert evaluation.greedy.reward_per_step == 1.0
    assert 10 * 90 / 9 <= evaluation.greedy.n <= 10 * 90


def test_the_same_seed_gives_the_same_episodes_and_none_is_a_training_seed(evaluator):
    one = evaluator.evaluate({}, episodes=10, seed=5, max_envs=5)
    first = list(SEEDS)
    SEEDS.clear()
    two = evaluator.evaluate({}, episodes=10, seed=5, max_envs=5)
    assert one == two
    assert first == SEEDS
    training = {episode_seed(5, env, episode) for env in range(50) for episode in range(50)}
    assert not training & set(first)


def test_the_seeds_listed_for_an_evaluation_are_those_its_envs_were_reset_with(evaluator):
    evaluator.evaluate({}, episodes=10, seed=5, max_envs=4)
    listed = [
        [episode_seed(5, env, episode, evaluation=True) for env, episode in counted_episodes(10, 4, way)]
        for way in WAYS
    ]
    assert [len(set(seeds)) for seeds in listed] == [10, 10]
    assert not set(listed[0]) & set(listed[1])
    assert {*listed[0], *listed[1]} <= set(SEEDS)


def test_one_way_alone_scores_what_it_scores_beside_the_other(evaluator):
    both = evaluator.evaluate({}, episodes=10, seed=5, max_envs=4)
    alone = evaluator.evaluate({}, episodes=10, seed=5, max_envs=4, ways=["sampled"])
    assert alone.sampled == both.sampled
    assert alone.greedy.n == 0


def test_a_score_has_an_interval_around_its_mean_and_survives_json(evaluator):
    evaluation = evaluator.evaluate({}, episodes=400, seed=1, max_envs=50)
    score = evaluation.greedy
    assert score.low < score.mean < score.high
    # Returns are 1 or 9 with spread 4: the interval of 400 is about 4 / 20 * 1.96 = 0.39 to either side.
    assert (score.high - score.low) / 2 == pytest.approx(0.39, rel=0.15)
    assert score.iqm == pytest.approx(np.mean(sorted(score.returns)[100:300]))
    assert Evaluation.from_json(json.loads(json.dumps(evaluation.to_json()))) == evaluation


def test_the_mean_that_counts(evaluator):
    evaluation = evaluator.evaluate({}, episodes=10, seed=0, max_envs=5)
    assert evaluation.judged_by("greedy") == evaluation.greedy.mean
    assert evaluation.judged_by("both") == min(evaluation.greedy.mean, evaluation.sampled.mean)


def test_the_known_optimum_of_slippery_frozen_lake():
    # The stationary policy that value iteration finds: 0.7402 within 100 steps (REFERENCE: 0.7402).
    table = find_port("FrozenLake-v1", {}, None)
    value = np.zeros(16)
    for _ in range(5000):
        q = np.sum(table.probability * (table.reward + ~table.terminal * value[table.successor]), -1)
        value = q.max(-1)
    assert abs(exact_return(table, q.argmax(-1)) - 0.7402) < 5e-4


def test_a_walk_by_hand():
    # Not slippery, down down right right down right reaches the goal; always left never does.
    table = find_port("FrozenLake-v1", {"is_slippery": False}, None)
    path = np.full(16, LEFT)
    path[[0, 4, 8, 9, 10, 14]] = [DOWN, DOWN, RIGHT, RIGHT, DOWN, RIGHT]
    assert exact_return(table, path) == 1.0
    assert exact_return(table, np.full(16, LEFT)) == 0.0


def test_the_time_limit_counts():
    # Cliff walking: 13 steps of -1 along the safe path; a limit of 5 leaves -5.
    table = find_port("CliffWalking-v1", {}, 5)
    up, right, down = range(3)
    path = np.full(48, right)
    path[36], path[35] = up, down
    assert exact_return(table, path) == -5.0
    assert exact_return(find_port("CliffWalking-v1", {}, 1000), path) == -13.0
