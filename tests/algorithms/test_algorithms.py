"""PPO, A2C and their shared parts, on data made by hand."""

from functools import partial

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gymlab.algorithms.a2c import A2CAlgorithm, A2CSettings
from gymlab.algorithms.opt_metrics import approx_kl, clip_fraction
from gymlab.algorithms.optimizers import Optimizer
from gymlab.algorithms.ppo import PPOAlgorithm, PPOSettings
from gymlab.core.types import Rollout, Spaces
from gymlab.experience.advantages import normalize, state_values
from gymlab.experience.minibatches import shuffled
from gymlab.networks.settings import PolicySettings

pytestmark = pytest.mark.fast

SPACES = Spaces(gym.spaces.Box(-1, 1, (3,), np.float32), gym.spaces.Discrete(2), False, 10)
TINY = PolicySettings(hidden=(8,))
T, N = 16, 4


def hyper(settings):
    return {name: jnp.float32(schedule.at(0)) for name, schedule in settings.schedules().items()}


def make(cls, **settings):
    return cls(cls.Settings(**settings), TINY, SPACES)


def update(algorithm, state, rollout):
    return jax.jit(lambda s, r: algorithm.update(s, (r,), hyper(algorithm.settings), jax.random.key(2)))(state, rollout)


def init(algorithm):
    return jax.jit(lambda: algorithm.init(jax.random.key(1), (N,)))()


def some_rollout(algorithm, params, seed=0):
    rng = np.random.default_rng(seed)
    obs = jnp.asarray(rng.normal(size=(T + 1, N, 3)), jnp.float32)
    keys = jax.random.split(jax.random.key(seed), T)
    decision = jax.jit(jax.vmap(lambda o, k: algorithm.act(params, o, (), k)))(obs[:-1], keys)
    ends = jnp.asarray(rng.random((2, T, N)) < 0.1)
    terminated, truncated = ends[0], ends[1] & ~ends[0]
    reward = jnp.asarray(rng.normal(size=(T, N)), jnp.float32)
    return Rollout(
        obs[:-1], decision.action, decision.log_prob, reward, reward, {}, terminated, truncated, terminated | truncated,
        obs[1:], obs[-1], (), {},
    )  # fmt: skip


@pytest.mark.parametrize("epochs", [1, 3])
def test_the_first_minibatch_has_ratio_one(epochs):
    ppo = make(PPOAlgorithm, batch_size=T * N, epochs=epochs)
    state = init(ppo)
    rollout = some_rollout(ppo, state.params)
    policy, _ = ppo.network(state.params).both(rollout.obs)
    np.testing.assert_allclose(jnp.exp(policy.log_prob(rollout.action) - rollout.log_prob), 1.0, atol=1e-5)
    _, metrics = update(ppo, state, rollout)
    if epochs == 1:
        assert abs(metrics["opt/approx_kl"]) < 1e-6
        assert metrics["opt/clip_fraction"] == 0


def test_a2c_is_ppo_with_one_epoch_one_minibatch_and_no_clipping():
    same = {
        "learning_rate": 1e-3,
        "gae_lambda": 0.9,
        "normalize_advantage": False,
        "optimizer": "rmsprop",
        "entropy_coef": 0.01,
    }
    a2c, ppo = make(A2CAlgorithm, **same), make(PPOAlgorithm, **same, epochs=1, batch_size=T * N, clip_range=1e6)
    state = init(a2c)
    rollout = some_rollout(a2c, state.params)
    one, _ = update(a2c, state, rollout)
    two, _ = update(ppo, state, rollout)
    for name, value in one.params.items():
        np.testing.assert_allclose(value, two.params[name], atol=1e-6)
        assert not np.array_equal(value, state.params[name])


def test_target_kl_stops_after_the_first_minibatch_when_the_step_is_huge():
    ppo = make(PPOAlgorithm, learning_rate=10.0, batch_size=8, epochs=4, target_kl=0.01)
    state = init(ppo)
    after, metrics = update(ppo, state, some_rollout(ppo, state.params))
    assert metrics["opt/gradient_steps"] == 1
    assert metrics["opt/kl_stop"]
    assert after.optimiser.moments.count == 1


def test_a_high_target_kl_changes_nothing():
    loose, off = make(PPOAlgorithm, batch_size=16, epochs=2, target_kl=1e6), make(PPOAlgorithm, batch_size=16, epochs=2)
    state = init(off)
    rollout = some_rollout(off, state.params)
    one, metrics = update(loose, state, rollout)
    two, _ = update(off, state, rollout)
    assert metrics["opt/gradient_steps"] == 8
    np.testing.assert_allclose(one.params["policy_head.weight"], two.params["policy_head.weight"], atol=1e-7)


def test_a_loss_of_ones_own_tells_what_it_likes():
    class Brief(PPOAlgorithm):
        def loss(self, params, batch, hp):
            loss, told = super().loss(params, batch, hp)
            return loss, {"opt/loss": told["opt/loss"], "opt/own": 2 * told["opt/loss"]}

    brief = make(Brief, batch_size=T * N, epochs=1)
    state = init(brief)
    _, metrics = update(brief, state, some_rollout(brief, state.params))
    assert metrics["opt/own"] == 2 * metrics["opt/loss"]
    assert "opt/approx_kl" not in metrics


def test_value_clipping_takes_the_worse_of_both_errors():
    ppo = make(PPOAlgorithm, value_clip=0.1)
    batch = type("B", (), {"value": jnp.array([0.0, 0.0]), "target": jnp.array([1.0, -1.0])})
    # Value moved to 1: unclipped errors 0 and 4; clipped to 0.1: 0.81 and 1.21. Worse: 0.81 and 4.
    loss = ppo._value_loss(jnp.array([1.0, 1.0]), batch, {"value_clip": jnp.float32(0.1)})
    np.testing.assert_allclose(loss, (0.81 + 4) / 2, rtol=1e-6)


def test_the_surrogate_is_clipped_on_the_pessimistic_side_only():
    # ratio 2 with advantage +1 is cut to 1.2; with advantage -1 it is not (-2 is worse than -1.2).
    ppo = make(PPOAlgorithm, normalize_advantage=False)
    params = init(ppo).params
    obs = jnp.zeros((2, 3))
    log_prob = ppo.network(params).distribution(obs).log_prob(jnp.zeros(2, int)) - jnp.log(2.0)
    batch = type("B", (), {
        "obs": obs, "action": jnp.zeros(2, int), "log_prob": log_prob, "advantage": jnp.array([1.0, -1.0]),
        "value": jnp.zeros(2), "target": jnp.zeros(2),
    })  # fmt: skip
    _, metrics = ppo.loss(params, batch, hyper(ppo.settings))
    np.testing.assert_allclose(metrics["opt/policy_loss"], -(1.2 - 2.0) / 2, rtol=1e-5)
    assert metrics["opt/clip_fraction"] == 1


def test_a_successor_counts_only_where_an_episode_was_cut():
    ppo = make(PPOAlgorithm)
    state = init(ppo)
    rollout = some_rollout(ppo, state.params)
    rollout = rollout._replace(successor=rollout.successor + 5.0)
    network = ppo.network(state.params)
    replay, value = partial(ppo.replay, state.params), partial(ppo.value, state.params)
    values, following, _ = state_values(replay, value, rollout)
    expected = jnp.concatenate([values[1:], network.value(rollout.last_obs)[None]])
    expected = jnp.where(rollout.truncated, network.value(rollout.successor), expected)
    np.testing.assert_allclose(following, expected, rtol=1e-5, atol=1e-6)
    assert rollout.truncated.any()


def test_every_epoch_is_a_permutation_of_all_samples():
    order = np.asarray(shuffled(jax.random.key(0), 24, 8, 5))
    assert order.shape == (15, 8)
    epochs = order.reshape(5, 24)
    assert (np.sort(epochs, 1) == np.arange(24)).all()
    assert len({tuple(epoch) for epoch in epochs.tolist()}) == 5


def test_few_samples_are_shuffled_as_jax_does_and_many_by_one_sort():
    keys = jax.random.split(jax.random.key(1), 3)
    assert np.array_equal(shuffled(jax.random.key(1), 64, 64, 3), [jax.random.permutation(key, 64) for key in keys])
    order = np.asarray(shuffled(jax.random.key(2), 50_000, 50_000, 1))[0]
    assert np.array_equal(np.sort(order), np.arange(50_000))
    assert abs(np.corrcoef(order, np.arange(50_000))[0, 1]) < 0.02


def test_normalize_by_hand_and_under_a_mask():
    # 1, 3 around 2 with std 1; the masked 100 neither counts nor comes back.
    np.testing.assert_allclose(normalize(jnp.array([1.0, 3.0])), [-1, 1], rtol=1e-6)
    masked = normalize(jnp.array([1.0, 3.0, 100.0]), jnp.array([1.0, 1.0, 0.0]))
    np.testing.assert_allclose(masked, [-1, 1, 0], atol=1e-6)


def test_diagnostics_by_hand():
    log_ratio = jnp.log(jnp.array([1.0, 2.0, 0.5, 1.1]))
    ratios = np.array([1.0, 2.0, 0.5, 1.1])
    np.testing.assert_allclose(approx_kl(log_ratio), np.mean(ratios - 1 - np.log(ratios)), rtol=1e-4)
    assert clip_fraction(log_ratio, 0.2) == 0.5


def test_the_moments_are_forgotten_only_when_asked_and_only_when_the_rate_changes():
    params = {"w": jnp.ones(2)}
    for mode, forgets in (("keep", False), ("reset_moments", True)):
        settings = PPOSettings(on_lr_change=mode)
        optimizer = Optimizer(settings)
        state = optimizer.init(params)
        for rate, expected in ((0.1, 1), (0.1, 2), (0.05, 1 if forgets else 3)):
            state = optimizer.start_update(state, params, jnp.float32(rate))
            _, state, _ = optimizer.step(state, params, {"w": jnp.ones(2)}, jnp.float32(1.0))
            assert state.moments.count == expected


def test_gradients_are_clipped_to_the_global_norm():
    optimizer = Optimizer(A2CSettings(optimizer="sgd"))
    params = {"a": jnp.zeros(1), "b": jnp.zeros(1)}
    state = optimizer.start_update(optimizer.init(params), params, jnp.float32(1.0))
    moved, _, norm = optimizer.step(state, params, {"a": jnp.array([3.0]), "b": jnp.array([4.0])}, jnp.float32(0.5))
    assert norm == 5
    np.testing.assert_allclose([moved["a"][0], moved["b"][0]], [-0.3, -0.4], rtol=1e-5)
