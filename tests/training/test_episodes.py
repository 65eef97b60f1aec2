import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gymlab.training import episodes

pytestmark = pytest.mark.fast

track = jax.jit(episodes.track)


def test_returns_and_lengths_by_hand():
    # Env 0: rewards 1 2 | 4, ends after step 1. Env 1: 8 16 32, never ends.
    reward = jnp.array([[1.0, 8], [2, 16], [4, 32]])
    fresh = jnp.array([[0, 0], [1, 0], [0, 0]], bool)
    state, metrics = track(episodes.start(2), reward, fresh)
    assert metrics["roll/episodes"] == 1
    assert metrics["roll/return_mean"] == 3
    assert metrics["roll/length_mean"] == 2
    assert metrics["roll/return_window"] == 1
    np.testing.assert_array_equal(state.running_return, [4, 56])
    np.testing.assert_array_equal(state.running_length, [1, 3])
    # Env 0 ends at once with 10 more: return 14, length 2; env 1 with 1 more: 57, length 4.
    state, metrics = track(state, jnp.array([[10.0, 1]]), jnp.array([[True, True]]))
    assert metrics["roll/return_mean"] == (3 + 14 + 57) / 3
    assert metrics["roll/length_mean"] == (2 + 2 + 4) / 3


def test_the_window_holds_the_last_hundred_in_order_of_time():
    # 30 envs end at each of 7 steps: 210 episodes, returns 0..209 in order of time.
    rewards = jnp.arange(210, dtype=jnp.float32).reshape(7, 30)
    state, metrics = track(episodes.start(30), rewards, jnp.ones((7, 30), bool))
    assert metrics["roll/episodes"] == 210
    assert metrics["roll/return_window"] == 100
    np.testing.assert_array_equal(np.sort(state.returns), np.arange(110, 210))


def test_nothing_finished_is_nan_not_zero():
    _, metrics = track(episodes.start(2), jnp.ones((3, 2)), jnp.zeros((3, 2), bool))
    assert np.isnan(metrics["roll/return_mean"])
    assert metrics["roll/return_window"] == 0
