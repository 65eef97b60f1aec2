"""Ports of tabular envs and of the bandit: probabilities are compared exactly, and draws by their frequencies."""

from __future__ import annotations

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from gymlab.envs import games
from gymlab.envs.games.bandit import BanditEnv
from gymlab.envs.ports.registry import find_port

N = 100_000
ULP = 2.0**-23
KEY = jax.random.key(0)
PLAIN: list[tuple[str, dict[str, Any]]] = [
    ("FrozenLake-v1", {}),
    ("FrozenLake8x8-v1", {}),
    ("CliffWalking-v1", {}),
    ("Taxi-v4", {}),
]
TABLES: list[tuple[str, dict[str, Any]]] = [
    *PLAIN,
    ("FrozenLake-v1", {"is_slippery": False}),
    ("FrozenLake-v1", {"map_name": "8x8"}),
    ("FrozenLake-v1", {"desc": ["SFS", "FHF", "FSG"], "success_rate": 0.8, "reward_schedule": [10, -3, -0.5]}),
    ("FrozenLake8x8-v1", {"success_rate": 1.0}),
    ("CliffWalking-v1", {"is_slippery": True}),
    ("CliffWalkingSlippery-v1", {}),
    ("Taxi-v4", {"is_rainy": True, "rainy_probability": 0.7, "fickle_probability": 0.5}),
]
Outcome = tuple[int, int, int, float, bool]  # state, action, next state, reward, terminated


def port_of(env_id: str, **kwargs: Any) -> Any:
    port = find_port(env_id, kwargs, None)
    assert not isinstance(port, str), port
    return port


def gym_env(env_id: str, **kwargs: Any) -> Any:
    return gymnasium.make(env_id, **kwargs).unwrapped


def outcome(row: Any) -> Outcome:
    return int(row[0]), int(row[1]), int(row[2]), float(row[3]), bool(row[4])


def gym_chances(env: Any) -> dict[Outcome, float]:
    chances: dict[Outcome, float] = {}
    for s, actions in env.P.items():
        for a, outcomes in actions.items():
            for p, *rest in outcomes:
                key = outcome((s, a, *rest))
                chances[key] = chances.get(key, 0.0) + p
    return {key: p for key, p in chances.items() if p > 0}


def assert_frequencies(transitions: np.ndarray, chances: dict[Outcome, float]) -> None:
    """Rows of (s, a, s', r, terminated): none impossible, and no count five standard deviations off."""
    found, counts = np.unique(transitions, axis=0, return_counts=True)
    seen = {outcome(row): int(count) for row, count in zip(found, counts, strict=True)}
    assert set(seen) <= set(chances)
    tried: dict[tuple[int, int], int] = {}
    for key, count in seen.items():
        tried[key[:2]] = tried.get(key[:2], 0) + count
    for key, p in chances.items():
        n = tried.get(key[:2], 0)
        assert abs(seen.get(key, 0) - n * p) <= 5 * np.sqrt(n * p * (1 - p)) + 1.0


@pytest.mark.parametrize(("env_id", "kwargs"), TABLES)
def test_a_table_has_gymnasiums_probabilities(env_id: str, kwargs: dict[str, Any]) -> None:
    port, env = port_of(env_id, **kwargs), gym_env(env_id, **kwargs)
    table: dict[Outcome, float] = {}
    drawn: dict[Outcome, float] = {}
    edges = np.concatenate([np.zeros_like(port.probability[..., :1]), port.thresholds], axis=-1)
    widths = np.diff(edges, axis=-1, append=1.0)
    for s, a, k in np.ndindex(port.probability.shape):
        key = outcome((s, a, port.successor[s, a, k], port.reward[s, a, k], port.terminal[s, a, k]))
        table[key] = table.get(key, 0.0) + port.probability[s, a, k]
        drawn[key] = drawn.get(key, 0.0) + widths[s, a, k]
    chances = gym_chances(env)
    assert {key: p for key, p in table.items() if p > 0} == chances
    assert all(abs(drawn[key] - chances.get(key, 0.0)) < ULP for key in drawn)
    start = np.zeros(env.observation_space.n)
    start[port.starts] = 1 / len(port.starts)
    np.testing.assert_allclose(start, env.initial_state_distrib, rtol=1e-12)


@pytest.mark.parametrize(("env_id", "kwargs"), TABLES)
def test_the_ports_steps_have_the_tables_frequencies(env_id: str, kwargs: dict[str, Any]) -> None:
    port = port_of(env_id, **kwargs)
    n_states, n_actions, _ = port.probability.shape
    pairs = jnp.arange(-(-N // (n_states * n_actions)) * n_states * n_actions) % (n_states * n_actions)
    s, a = pairs // n_actions, pairs % n_actions
    after, reward, terminated = jax.jit(port.step)(s, a, KEY)
    transitions = np.stack([s, a, after, reward, terminated], axis=-1)
    assert_frequencies(transitions, gym_chances(gym_env(env_id, **kwargs)))
    first = np.bincount(port.reset(KEY, N), minlength=n_states)
    assert set(np.flatnonzero(first)) == set(port.starts)
    p = 1 / len(port.starts)
    assert abs(first[port.starts] - N * p).max() <= 5 * np.sqrt(N * p * (1 - p))


@pytest.mark.parametrize(("env_id", "kwargs"), PLAIN)
def test_gymnasiums_own_steps_follow_the_ports_table(env_id: str, kwargs: dict[str, Any]) -> None:
    port, env = port_of(env_id, **kwargs), gym_env(env_id, **kwargs)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    n_states, n_actions, _ = port.probability.shape
    s, a = rng.integers(0, n_states, N), rng.integers(0, n_actions, N)
    results, masks = np.empty((N, 3)), np.ones((N, n_actions), bool)
    for i in range(N):
        env.s = int(s[i])
        after, reward, terminated, _, info = env.step(int(a[i]))
        results[i] = after, reward, terminated
        if port.mask is not None:
            masks[i] = info["action_mask"]
    chances: dict[Outcome, float] = {}
    for i, j, k in zip(*np.nonzero(port.probability), strict=True):
        key = outcome((i, j, port.successor[i, j, k], port.reward[i, j, k], port.terminal[i, j, k]))
        chances[key] = chances.get(key, 0.0) + port.probability[i, j, k]
    assert_frequencies(np.column_stack([s, a, results]), chances)
    if port.mask is not None:
        np.testing.assert_array_equal(port.action_mask(jnp.asarray(results[:, 0], jnp.int32)), masks)


def test_only_taxi_has_masks_and_they_are_its_own() -> None:
    port, env = port_of("Taxi-v4"), gym_env("Taxi-v4")
    states = jnp.arange(500)
    np.testing.assert_array_equal(port.action_mask(states), np.array([env.action_mask(s) for s in range(500)], bool))
    assert port.mask.any(axis=1).all()
    for env_id in ("FrozenLake-v1", "CliffWalking-v1"):
        assert port_of(env_id).action_mask(states) is None


def test_the_bandit_passes_gymnasiums_checker() -> None:
    games.register()
    games.register()
    env = gymnasium.make("Bandit-v0", n_arms=3, seed=5, drift=0.1)
    check_env(env.unwrapped)
    env.reset(seed=0)
    ends = [env.step(0)[2:4] for _ in range(20)]
    assert ends == [(False, False)] * 19 + [(False, True)]
    assert BanditEnv(seed=1).means.tolist() == BanditEnv(seed=1).means.tolist() != BanditEnv(seed=2).means.tolist()


def test_the_bandits_rewards_have_the_arms_moments_in_env_and_port() -> None:
    port, env = port_of("Bandit-v0", n_arms=4, seed=3, noise=0.5), BanditEnv(n_arms=4, seed=3, noise=0.5)
    _, info = env.reset(seed=0)
    state = port.reset(KEY, N)
    np.testing.assert_allclose(state[0], env.means, rtol=1e-6)
    assert info["best_arm"] == np.argmax(state[0])
    arms = np.arange(N) % 4
    after, ours, terminated = jax.jit(port.step)(state, jnp.asarray(arms), KEY)
    theirs = np.array([env.step(arm)[1] for arm in arms])
    np.testing.assert_array_equal(after, state)
    assert not np.asarray(terminated).any()
    for reward in (np.asarray(ours), theirs):
        for arm in range(4):
            sample = reward[arms == arm]
            # five standard errors of the mean and of the deviation
            assert abs(sample.mean() - env.means[arm]) < 5 * 0.5 / np.sqrt(len(sample))
            assert abs(sample.std() - 0.5) < 5 * 0.5 / np.sqrt(2 * len(sample))


def test_drifting_arms_walk_within_an_episode_and_start_anew() -> None:
    # 16 pulls of drift 0.25 give each mean a deviation of sqrt(16) * 0.25 = 1.
    pulls, drift = 16, 0.25
    port, env = port_of("Bandit-v0", drift=drift), BanditEnv(drift=drift)
    ours = port.reset(KEY, 2000)
    for key in jax.random.split(KEY, pulls):
        ours = port.step(ours, jnp.zeros(2000, jnp.int32), key)[0]
    theirs = np.empty((2000, 10))
    env.reset(seed=0)
    for i in range(2000):
        env.reset()
        np.testing.assert_array_equal(env.means, env.arms.means())
        for _ in range(pulls):
            info = env.step(0)[4]
        theirs[i] = env.means
        assert info["best_arm"] == np.argmax(env.means)
    for means in (np.asarray(ours), theirs):
        walked = means - env.arms.means()
        assert abs(walked.mean()) < 5 / np.sqrt(walked.size)
        assert abs(walked.std() - 1) < 5 / np.sqrt(2 * walked.size)
