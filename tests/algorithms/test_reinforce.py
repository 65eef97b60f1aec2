import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gymlab.algorithms.reinforce import ReinforceAlgorithm
from gymlab.core.types import Rollout, Spaces
from gymlab.networks.settings import PolicySettings

pytestmark = pytest.mark.fast

LINEAR = PolicySettings(hidden=(), ortho_init=False)
TWO_STATES = Spaces(gym.spaces.Discrete(2), gym.spaces.Discrete(2), False, 4)


def make(**settings):
    chosen = ReinforceAlgorithm.Settings(**{"normalize_advantage": False, **settings})
    return ReinforceAlgorithm(chosen, LINEAR, TWO_STATES)


def hyper(algorithm):
    return {name: jnp.float32(schedule.at(0)) for name, schedule in algorithm.settings.schedules().items()}


def update(algorithm, state, rollout):
    return jax.jit(lambda s, r: algorithm.update(s, (r,), hyper(algorithm), None))(state, rollout)


def init(algorithm, n_envs):
    return jax.jit(lambda: algorithm.init(jax.random.key(0), (n_envs,)))()


def rollout(obs, action, reward, terminated, truncated=None, log_prob=None):
    obs, action = jnp.asarray(obs), jnp.asarray(action)
    reward = jnp.asarray(reward, jnp.float32)
    terminated = jnp.asarray(terminated, bool)
    truncated = jnp.zeros_like(terminated) if truncated is None else jnp.asarray(truncated, bool)
    log_prob = jnp.full(reward.shape, np.log(0.5), jnp.float32) if log_prob is None else log_prob
    return Rollout(
        obs, action, log_prob, reward, reward, {}, terminated, truncated, terminated | truncated, obs, obs[-1], (), {}
    )


def test_the_gradient_on_a_two_state_mdp_is_the_analytic_one():
    # One env, one episode: state 0 action 1 reward 1, state 1 action 0 reward 2, gamma 0.5; uniform policy.
    # Returns: G0 = 1 + 0.5 * 2 = 2, G1 = 2. d log pi(a|s) / d logits = onehot(a) - 0.5.
    # Gradient of -(1/2) sum G log pi: for logits of state 0: -(1/2) * 2 * (-0.5, 0.5) = (0.5, -0.5),
    # for state 1: -(1/2) * 2 * (0.5, -0.5) = (-0.5, 0.5). The policy is linear, so these are the head's rows.
    algorithm = make(baseline="none", optimizer="sgd", learning_rate=1.0, max_grad_norm=1e9, gamma=0.5)
    state = init(algorithm, 1)
    params = {name: jnp.zeros_like(value) for name, value in state.params.items()}
    data = rollout([[0], [1]], [[1], [0]], [[1], [2]], [[0], [1]])
    after, metrics = update(algorithm, state._replace(params=params), data)
    np.testing.assert_allclose(after.params["policy_head.weight"], [[-0.5, 0.5], [0.5, -0.5]], atol=1e-5)
    np.testing.assert_allclose(after.params["policy_head.bias"], [0, 0], atol=1e-5)
    assert metrics["roll/used_transitions"] == 2


def test_a_transition_is_used_once_in_the_update_in_which_its_episode_ends():
    algorithm = make(baseline="none", gamma=1.0)
    state = init(algorithm, 2)
    step = jax.jit(lambda s, r: algorithm.update(s, (r,), hyper(algorithm), None))
    # Two envs, two steps a rollout. Env 0 ends in step 2 of rollout 1 and of rollout 2; env 1 in step 1 of rollout 2.
    first = rollout([[0, 0], [1, 1]], [[0, 1], [0, 1]], [[1, 1], [1, 1]], [[0, 0], [1, 0]])
    second = rollout([[0, 1], [1, 0]], [[0, 1], [0, 1]], [[1, 1], [1, 1]], [[0, 1], [1, 0]])
    state, metrics = step(state, first)
    assert metrics["roll/used_transitions"] == 2
    assert metrics["roll/stale_fraction"] == 0
    np.testing.assert_array_equal(state.buffers.pending[0].valid[-2:], [[False, True], [False, True]])
    state, metrics = step(state, second)
    assert metrics["roll/used_transitions"] == 5  # env 0: 2, env 1: 2 pending + 1
    np.testing.assert_allclose(metrics["roll/stale_fraction"], 2 / 5)
    np.testing.assert_array_equal(state.buffers.pending[0].valid[-2:], [[False, False], [False, True]])


def test_nothing_is_lost_over_many_rollouts_of_any_length():
    algorithm = make(baseline="value")
    rng = np.random.default_rng(0)
    state = init(algorithm, 3)
    step = jax.jit(lambda s, r: algorithm.update(s, (r,), hyper(algorithm), None))
    elapsed, collected, used = np.zeros(3, int), 0, 0
    for _ in range(30):
        terminated, truncated = np.zeros((2, 3), bool), np.zeros((2, 3), bool)
        for t in range(2):
            elapsed += 1
            terminated[t] = rng.random(3) < 0.3
            truncated[t] = (elapsed >= 4) & ~terminated[t]
            elapsed[terminated[t] | truncated[t]] = 0
        state, metrics = step(
            state,
            rollout(rng.integers(2, size=(2, 3)), rng.integers(2, size=(2, 3)), np.ones((2, 3)), terminated, truncated),
        )
        collected, used = collected + 6, used + int(metrics["roll/used_transitions"])
        assert collected == used + int(state.buffers.pending[0].valid.sum())
        assert metrics["roll/discarded_transitions"] == 0
        assert int(state.buffers.pending[0].valid.sum()) == elapsed.sum()


def test_what_is_discarded_is_counted():
    # An open episode is cut off from its end twice: with two transitions, then with one; the third one ends.
    algorithm = make(baseline="none")
    state, _ = update(algorithm, init(algorithm, 1), rollout([[0], [1]], [[0], [0]], [[1], [1]], [[0], [0]]))
    state, metrics = update(algorithm, algorithm.forget_open_episodes(state), rollout([[0]], [[0]], [[1]], [[0]]))
    assert metrics["roll/discarded_transitions"] == 2
    state, metrics = update(algorithm, algorithm.forget_open_episodes(state), rollout([[0]], [[0]], [[1]], [[1]]))
    assert metrics["roll/discarded_transitions"] == 3
    assert metrics["roll/used_transitions"] == 1


def test_an_episode_longer_than_the_buffer_loses_its_beginning_by_count():
    # The buffer holds one episode of the longest kind; an env that breaks its time limit overflows it.
    algorithm = make(baseline="none")
    state = init(algorithm, 1)
    length = len(state.buffers.pending[0].valid)
    for _ in range(length + 2):
        state, metrics = update(algorithm, state, rollout([[0]], [[0]], [[1]], [[0]]))
    assert metrics["roll/discarded_transitions"] == 2


def test_without_a_finished_episode_nothing_moves():
    algorithm = make(optimizer="adam")
    state = init(algorithm, 1)
    done, _ = update(algorithm, state, rollout([[0]], [[0]], [[1]], [[1]]))
    after, metrics = update(algorithm, done, rollout([[0]], [[0]], [[1]], [[0]]))
    assert metrics["opt/gradient_steps"] == 0
    for name, value in done.params.items():
        np.testing.assert_array_equal(after.params[name], value)
    assert after.optimiser.moments.count == done.optimiser.moments.count


def test_stale_transitions_are_weighted_by_the_ratio_cut_at_one():
    # pi is 1/2 everywhere. Chosen under probability 1: weight 1/2. Chosen under 1/4: weight 2, cut to 1.
    algorithm = make(baseline="none", optimizer="sgd", learning_rate=1.0, max_grad_norm=1e9, gamma=0.0)
    state = init(algorithm, 2)
    params = {name: jnp.zeros_like(value) for name, value in state.params.items()}
    old = jnp.log(jnp.array([[1.0, 0.25]]))
    after, _ = update(
        algorithm, state._replace(params=params), rollout([[0, 1]], [[0, 0]], [[1, 1]], [[1, 1]], log_prob=old)
    )
    np.testing.assert_allclose(
        after.params["policy_head.weight"], 0.5 * 0.5 * np.array([[0.5, -0.5], [1.0, -1.0]]), atol=1e-6
    )


def test_truncated_episodes_end_with_a_value_only_under_the_value_baseline():
    for baseline, expected in (("none", 1.0), ("value", 1.0 + 0.5 * 7.0)):
        algorithm = make(baseline=baseline, gamma=0.5)
        state = init(algorithm, 1)
        params = {name: jnp.zeros_like(value) for name, value in state.params.items()}
        params["value_head.bias"] = jnp.array([7.0])
        sample, _ = algorithm._join(
            params,
            state.buffers.pending[0],
            rollout([[0]], [[0]], [[1]], [[0]], [[1]]),
            hyper(algorithm),
        )
        np.testing.assert_allclose(sample.target[-1, 0], expected)
        assert bool(algorithm.notes()) == (baseline == "none")


def test_a_baseline_lowers_the_variance_of_the_gradient():
    # Returns of 10 plus noise in every state: the mean carries no information and a baseline removes it.
    rng = np.random.default_rng(0)
    spread = {}
    for baseline in ("none", "running_mean", "value"):
        algorithm = make(baseline=baseline, optimizer="sgd", learning_rate=1.0, max_grad_norm=1e9, gamma=0.0)
        state = init(algorithm, 1)
        params = {name: jnp.zeros_like(value) for name, value in state.params.items()}
        params["value_head.bias"] = jnp.array([10.0])
        state = state._replace(params=params, buffers=state.buffers._replace(mean_return=jnp.float32(10.0)))
        step = jax.jit(lambda s, r, algorithm=algorithm: algorithm.update(s, (r,), hyper(algorithm), None))
        moves = []
        for _ in range(40):
            after, _ = step(
                state,
                rollout(
                    rng.integers(2, size=(8, 1)),
                    rng.integers(2, size=(8, 1)),
                    10 + rng.normal(size=(8, 1)),
                    np.ones((8, 1)),
                ),
            )
            moves.append(np.asarray(after.params["policy_head.weight"]).ravel())
        spread[baseline] = np.var(moves, axis=0).sum()
    assert spread["value"] < 0.1 * spread["none"]
    assert spread["running_mean"] < 0.1 * spread["none"]


def test_the_logged_kl_is_the_one_recomputed_from_the_rollout():
    algorithm = make(learning_rate=0.1)
    state = init(algorithm, 1)
    data = rollout([[0], [1]], [[0], [1]], [[1], [0]], [[0], [1]])
    after, metrics = update(algorithm, state, data)
    old, new = (algorithm.network(s.params).distribution(data.obs) for s in (state, after))
    np.testing.assert_allclose(metrics["opt/kl"], old.kl(new).mean(), rtol=1e-5)
    log_ratio = new.log_prob(data.action) - old.log_prob(data.action)
    np.testing.assert_allclose(metrics["opt/approx_kl"], (jnp.expm1(log_ratio) - log_ratio).mean(), rtol=1e-4)
