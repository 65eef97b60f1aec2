"""The `VecStep` contract, for the JAX engine over every port."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from gymlab.core.types import Array, Masked, VecStep
from gymlab.envs.engines.jax import EngineState, JaxEngine
from gymlab.envs.ports.registry import PORTS, find_port

LIMIT = 5
KEY = jax.random.key(0)
RECORDED = 40  # steps
DISTINCT = [env_id for env_id in PORTS if env_id not in ("CartPole-v0", "FrozenLake8x8-v1", "CliffWalkingSlippery-v1")]


@cache
def engine_of(env_id: str, n_envs: int, limit: int = LIMIT) -> JaxEngine:
    port = find_port(env_id, {}, limit)
    assert not isinstance(port, str), port
    return JaxEngine(port, n_envs)


def random_actions(engine: JaxEngine, seed: int) -> np.ndarray:
    rng, space = np.random.default_rng(seed), engine.spaces.action
    if isinstance(space, spaces.Discrete):
        return rng.integers(0, space.n, (RECORDED, engine.n_envs), np.int32)
    return rng.uniform(space.low, space.high, (RECORDED, engine.n_envs, *space.shape)).astype(np.float32)


@cache
def compiled_roll(engine: JaxEngine) -> Callable[..., Any]:
    def run(init_key: Array, actions: Array, keys: Array) -> tuple[VecStep, EngineState, VecStep]:
        def body(carry: tuple[EngineState, VecStep], x: tuple[Array, Array]) -> Any:
            after = engine.step(carry[0], *x)
            return after, after

        # The step is carried too: the first one must have exactly the types of the others.
        state, first = engine.init(init_key)
        _, (states, steps) = jax.lax.scan(body, (state, first), (actions, keys))
        return first, states, steps

    return jax.jit(run)


def roll(engine: JaxEngine, seed: int = 0) -> tuple[VecStep, EngineState, VecStep]:
    """The first step, and the states and steps that follow it, (T, N, ...)."""
    keys = jax.random.split(jax.random.key(seed), RECORDED + 1)
    return jax.tree.map(np.asarray, compiled_roll(engine)(keys[0], random_actions(engine, seed), keys[1:]))


assert_close = partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6)


def obs_of(tree: Any) -> np.ndarray:
    return tree.obs if isinstance(tree, Masked) else tree


@pytest.mark.parametrize("n_envs", [1, 64])
@pytest.mark.parametrize("env_id", PORTS)
def test_the_contract_holds_along_random_episodes(env_id: str, n_envs: int) -> None:
    engine = engine_of(env_id, n_envs)
    first, states, steps = roll(engine)

    assert (engine.name, engine.n_envs, engine.spaces.max_episode_steps) == ("jax", n_envs, LIMIT)
    assert first.fresh.all()
    for zero in (first.terminated, first.truncated, first.reward, first.train_reward):
        assert not zero.any()
    assert first.components == {} == steps.components
    jax.tree.map(np.testing.assert_array_equal, first.obs, first.successor)

    for step, lead in ((first, (n_envs,)), (steps, (RECORDED, n_envs))):
        assert step.reward.dtype == step.train_reward.dtype == np.float32
        assert step.terminated.dtype == step.truncated.dtype == step.fresh.dtype == bool
        assert {x.shape for x in (step.reward, step.terminated, step.truncated, step.fresh)} == {lead}
        for obs in (obs_of(step.obs), obs_of(step.successor)):
            assert obs.shape == (*lead, *engine.spaces.observation.shape)
            assert obs.dtype == (np.int32 if isinstance(engine.spaces.observation, spaces.Discrete) else np.float32)
    np.testing.assert_array_equal(steps.train_reward, steps.reward)
    assert not (steps.terminated & steps.truncated).any()
    np.testing.assert_array_equal(steps.fresh, steps.terminated | steps.truncated)

    # Where nothing ended the agent acts on the successor; where an episode ended the next one starts at zero.
    cut = steps.fresh
    # (XLA may compute a number twice and round it differently.)
    jax.tree.map(lambda a, b: assert_close(a[~cut], b[~cut]), steps.obs, steps.successor)
    jax.tree.map(assert_close, obs_of(steps.obs), np.asarray(jax.vmap(engine.env.observe)(states.env)))
    elapsed = np.zeros(n_envs, np.int32)
    for t in range(RECORDED):
        elapsed += 1
        np.testing.assert_array_equal(steps.truncated[t], (elapsed >= LIMIT) & ~steps.terminated[t])
        elapsed[cut[t]] = 0
        np.testing.assert_array_equal(states.elapsed[t], elapsed)
    assert steps.truncated.any()


@pytest.mark.parametrize("env_id", DISTINCT)
def test_a_time_limit_changes_nothing_but_where_the_next_episode_starts(env_id: str) -> None:
    engine = engine_of(env_id, 64)
    _, _, limited = roll(engine)
    _, _, free = roll(engine_of(env_id, 64, limit=1000))
    # Envs whose first episode reached the limit: their fifth step was cut in one history and not in the other.
    cut = limited.truncated[LIMIT - 1] & ~limited.fresh[: LIMIT - 1].any(axis=0)
    assert cut.any()
    for a, b in (
        (obs_of(limited.successor), obs_of(free.successor)),
        (limited.reward, free.reward),
        (limited.terminated, free.terminated),
    ):
        assert_close(a[:LIMIT, cut], b[:LIMIT, cut])
    assert not free.truncated.any()
    assert not free.fresh[:LIMIT, cut].any()


@pytest.mark.parametrize("env_id", DISTINCT)
def test_a_new_episode_starts_where_the_env_starts_episodes(env_id: str) -> None:
    engine = engine_of(env_id, 64)
    _, _, steps = roll(engine)
    begun = obs_of(steps.obs)[steps.fresh]
    starts = np.asarray(engine.env.observe(engine.env.reset(jax.random.key(1), 20_000)))
    if isinstance(engine.spaces.observation, spaces.Discrete):
        assert set(begun) <= set(starts)
    else:
        assert (begun >= starts.min(axis=0) - 1e-3).all()
        assert (begun <= starts.max(axis=0) + 1e-3).all()
        assert len(np.unique(begun, axis=0)) == len(begun)


def test_an_episode_that_ends_at_the_limit_by_itself_is_terminated() -> None:
    engine = engine_of("CartPole-v1", 2, limit=1)
    state, _ = engine.init(KEY)
    # The left cart leaves the track in this very step, the right one does not.
    moved = state.env._replace(x=jnp.array([2.39, 0.0]), x_dot=jnp.array([2.0, 0.0]))
    _, step = engine.step(state._replace(env=moved), jnp.array([1, 1]), KEY)
    np.testing.assert_array_equal(step.terminated, [True, False])
    np.testing.assert_array_equal(step.truncated, [False, True])
    np.testing.assert_allclose(np.asarray(step.successor)[:, 0], [2.43, 0.0], rtol=1e-6)  # 2.39 + 0.02 * 2
    assert (abs(np.asarray(step.obs)) <= 0.05).all()


@pytest.mark.parametrize("env_id", DISTINCT)
def test_one_key_gives_one_history(env_id: str) -> None:
    engine = engine_of(env_id, 64)
    once, again, other = roll(engine), roll(engine), roll(engine, seed=1)
    jax.tree.map(np.testing.assert_array_equal, once, again)
    assert any((a != b).any() for a, b in zip(jax.tree.leaves(once), jax.tree.leaves(other), strict=True))


def test_no_two_envs_share_their_chances() -> None:
    _, _, steps = roll(engine_of("FrozenLake-v1", 64))
    assert len({tuple(row) for row in steps.successor.T}) > 60


def test_masks_travel_with_the_observation_unless_switched_off() -> None:
    engine = engine_of("Taxi-v4", 64)
    assert engine.spaces.masked
    first, _, steps = roll(engine)
    port: Any = engine.env
    for seen in (first.obs, steps.obs, steps.successor):
        assert seen.mask.dtype == bool
        np.testing.assert_array_equal(seen.mask, port.mask[seen.obs])
    bare = JaxEngine(port, 64, use_action_mask=False)
    assert not bare.spaces.masked
    assert not isinstance(bare.init(KEY)[1].obs, Masked)
    assert not any(engine_of(env_id, 1).spaces.masked for env_id in PORTS if env_id != "Taxi-v4")


def test_env_parameters_are_arrays_of_the_state_and_another_value_compiles_nothing():
    """Each env has its own gravity; with Gymnasium's everywhere the steps are those of the plain engine."""
    compiled = []
    engine = JaxEngine(find_port("Pendulum-v1", {}, 10), 3, parameters=("g",))

    @jax.jit
    def step(state, action, key):
        compiled.append(1)
        return engine.step(state, action, key)

    plain = JaxEngine(find_port("Pendulum-v1", {}, 10), 3)
    key, action = jax.random.key(0), jnp.ones((3, 1))
    state, first = engine.init(key)
    assert plain.init(key)[0].parameters == ()
    np.testing.assert_array_equal(plain.init(key)[1].obs, first.obs)
    after, earth = step(state, action, key)
    np.testing.assert_allclose(plain.step(plain.init(key)[0], action, key)[1].obs, earth.obs, rtol=1e-6)
    _, mixed = step(state._replace(parameters={"g": jnp.array([10.0, 1.6, 3.7])}), action, key)
    np.testing.assert_array_equal(mixed.obs[0], earth.obs[0])
    for env, gravity in ((1, 1.6), (2, 3.7)):
        other = JaxEngine(find_port("Pendulum-v1", {"g": gravity}, 10), 3)
        np.testing.assert_allclose(mixed.obs[env], other.step(other.init(key)[0], action, key)[1].obs[env], rtol=1e-5)
        assert abs(mixed.obs[env] - earth.obs[env]).max() > 1e-3
    assert len(compiled) == 1
    assert after.parameters["g"].tolist() == [10.0] * 3
