"""Tiny envs whose true values and best policies are known."""

import numpy as np
import pytest

from gymlab.core.clock import Clock
from gymlab.recipes.resolve import resolve
from gymlab.session.build import build


def train(reference, updates, *overrides, seed=0):
    recipe = resolve(reference, ["metrics.statistics=basic", *overrides]).recipe
    parts = build(recipe, seed)
    state, done, rows = parts.program.start(seed), 0, []
    while done < updates:
        k = min(parts.program.most, updates - done)
        clock = parts.plan.after(Clock(), done)
        state, more = parts.program.advance(state, clock, parts.plan.scheduled(clock, k), float("inf"))
        rows, done = rows + more, done + k
    return parts, state, rows


def test_an_endless_task_is_valued_through_truncations_on_the_host():
    # Reward 1 for ever, cut every 10 steps, gamma 0.9: V = 1 / (1 - 0.9) = 10. Treating the cut as death gives 6.5.
    parts, state, _ = train(
        "tests.example_envs:Forever-v0:ppo",
        150,
        "n_envs=4",
        "n_steps=16",
        "batch_size=64",
        "epochs=4",
        "gamma=0.9",
        "learning_rate=1e-2",
        "policy.hidden=[8]",
        "normalize.obs=false",
        "normalize.reward=false",
    )
    network = parts.agent.algorithm.network(parts.agent.policy(state).weights)
    np.testing.assert_allclose(network.value(np.asarray(state.groups[0].obs)), 10.0, rtol=0.05)
    parts.program.close()


def test_an_endless_task_is_valued_through_truncations_when_compiled():
    # MountainCar from the start states never ends within 10 steps: reward -1, V = -10 at gamma 0.9.
    parts, state, _ = train(
        "MountainCar-v0:ppo",
        200,
        "engine=jax",
        "max_episode_steps=10",
        "n_envs=4",
        "n_steps=16",
        "batch_size=64",
        "epochs=4",
        "gamma=0.9",
        "learning_rate=1e-2",
        "policy.hidden=[8]",
        "normalize.obs=false",
        "normalize.reward=false",
        "entropy_coef=0",
    )
    network = parts.agent.algorithm.network(parts.agent.policy(state).weights)
    np.testing.assert_allclose(network.value(np.asarray(state.groups[0].obs)), -10.0, rtol=0.05)


@pytest.mark.parametrize("algorithm", ["ppo", "a2c", "reinforce"])
def test_the_identity_task_is_learnt(algorithm):
    settings = {"ppo": ["batch_size=64", "epochs=4"], "a2c": [], "reinforce": []}[algorithm]
    parts, _, rows = train(
        f"tests.example_envs:Identity-v0:{algorithm}",
        120,
        "n_envs=8",
        "n_steps=16",
        "learning_rate=1e-2",
        "policy.hidden=[16]",
        "gamma=0",
        *settings,
    )
    assert rows[0]["roll/reward_mean"] < 0.5
    assert rows[-1]["roll/reward_mean"] > 0.9
    parts.program.close()


@pytest.mark.parametrize("env", ["Custom-v0", "Switches-v0"])
def test_dict_observations_and_composite_actions_are_learnt(env):
    parts, _, rows = train(
        f"tests.example_envs:{env}:ppo",
        60,
        "n_envs=8",
        "n_steps=32",
        "batch_size=64",
        "epochs=4",
        "learning_rate=5e-3",
        "policy.hidden=[16]",
        "normalize.obs=false",
        "normalize.reward=false",
    )
    first = np.mean([row["roll/reward_mean"] for row in rows[:3]])
    last = np.mean([row["roll/reward_mean"] for row in rows[-3:]])
    assert last > first + 0.2
    parts.program.close()
