"""The NumPy twins of envs play Gymnasium's own evaluation episodes, bit for bit; where they would not, they rest."""

import gymnasium
import numpy as np
import pytest

from gymlab.envs.engines.gymnasium import GymnasiumEngine
from gymlab.envs.engines.numpy import NumpyEngine, find_numpy_twin
from gymlab.envs.ports import cartpole_numpy
from gymlab.envs.settings import EnvSettings
from gymlab.recipes.resolve import resolve
from gymlab.session.build import build

CASES = {
    "CartPole-v1": EnvSettings(id="CartPole-v1"),
    "CartPole-v1, another reward": EnvSettings(id="CartPole-v1", kwargs={"sutton_barto_reward": True}),
    "CartPole-v1, cut": EnvSettings(id="CartPole-v1", max_episode_steps=30),
}
FIELDS = ("obs", "successor", "reward", "train_reward", "terminated", "truncated", "fresh")


def balancing(obs, random):
    """Actions that keep a pole up for a while."""
    return (obs[:, 2] + 0.5 * obs[:, 3] + 0.4 * random.normal(size=len(obs)) > 0).astype(np.int64)


@pytest.mark.parametrize("n", [1, 3, 40])
@pytest.mark.parametrize("name", CASES)
def test_every_step_is_the_envs_own(name, n):
    settings, random, ended = CASES[name], np.random.default_rng(0), 0
    found = find_numpy_twin(settings)
    assert found is not None
    with GymnasiumEngine(settings, n, 7, evaluation=True) as envs:
        twin = NumpyEngine(found[0], settings, found[1], n, 7)
        assert twin.spaces == envs.spaces
        theirs, ours = envs.reset(), twin.reset()
        for _ in range(700):
            for field in FIELDS:
                a, b = getattr(theirs, field), getattr(ours, field)
                assert a.dtype == b.dtype
                np.testing.assert_array_equal(a, b, field)
            ended += int(ours.fresh.sum())
            action, active = balancing(ours.obs, random), random.random(n) < 0.9
            theirs, ours = envs.step(action, active), twin.step(action, active)
    assert ended > 2 * n  # whole episodes were played, one after the other


@pytest.mark.parametrize(
    "settings",
    [
        EnvSettings(id="Acrobot-v1"),
        EnvSettings(id="CartPole-v1", wrappers=({"sticky_actions": 0.25},)),
        EnvSettings(id="CartPole-v1", kwargs={"render_mode": "rgb_array"}),
    ],
    ids=lambda settings: f"{settings.id} {settings.kwargs} {len(settings.wrappers)}",
)
def test_what_has_no_twin_is_stepped_itself(settings):
    assert find_numpy_twin(settings) is None


def test_an_id_that_means_something_else_has_no_twin(monkeypatch):
    from gymnasium.envs.classic_control.cartpole import CartPoleEnv

    class Mine(CartPoleEnv):
        pass

    spec = gymnasium.spec("CartPole-v1")
    monkeypatch.setitem(gymnasium.registry, "CartPole-v1", type(spec)("CartPole-v1", Mine, max_episode_steps=500))
    assert find_numpy_twin(EnvSettings(id="CartPole-v1")) is None


def test_a_twin_that_differs_in_the_last_bit_is_not_used(monkeypatch, caplog):
    monkeypatch.setattr(cartpole_numpy, "GRAVITY", np.nextafter(9.8, 10))
    assert find_numpy_twin(EnvSettings(id="CartPole-v1")) is None
    assert "differs" in caplog.text


def test_a_policy_scores_the_same_either_way(monkeypatch):
    tiny = ["n_envs=2", "n_steps=8", "batch_size=8", "policy.hidden=[4]", "metrics.statistics=basic"]
    scores = []
    for twin in (True, False):
        if not twin:
            monkeypatch.setattr("gymlab.session.choose_engine.find_numpy_twin", lambda _: None)
        parts = build(resolve("CartPole-v1:ppo", tiny).recipe, 0)
        policy = parts.agent.policy(parts.program.start(0))
        scores.append(parts.evaluator.evaluate(policy, episodes=10, seed=3, max_envs=4))
    assert scores[0] == scores[1]
    assert len(set(scores[0].sampled.returns)) > 2
