"""Shaping: named parts of the training reward, whose weighted sum it is; reported rewards are never touched."""

from __future__ import annotations

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from gymlab.core.errors import UserError
from gymlab.core.types import Spaces
from gymlab.envs.engines.gymnasium import GymnasiumEngine
from gymlab.envs.make import make_env, split_wrappers
from gymlab.envs.settings import EnvSettings
from gymlab.envs.transform import transformed
from gymlab.envs.wrappers.cartpole_centring import Centring
from gymlab.envs.wrappers.clip_reward import ClipReward
from gymlab.envs.wrappers.count_bonus import CountBonus
from gymlab.envs.wrappers.mountain_car_energy import Energy
from gymlab.envs.wrappers.reward_weights import RewardWeights
from gymlab.envs.wrappers.scale_reward import ScaleReward
from gymlab.envs.wrappers.time_penalty import TimePenalty
from gymlab.training.state import apply_transforms
from tests.stepping import BOTH, vec_step

pytestmark = pytest.mark.fast


class Runner(gymnasium.Env):
    """Pays 1 for running and charges 0.25 times the push; ends after three steps."""

    observation_space = spaces.Box(0.0, 9.0, (1,))
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        parts = {"reward_run": 1.0, "reward_push": -0.25 * action}
        return np.full(1, self.t, np.float32), sum(parts.values()) + 0.5, self.t == 3, False, parts


def plain(xp, obs, successor=None, **more):
    """A step as engines give it: without named parts."""
    return vec_step(xp, obs, successor, **more)._replace(components={})


def cart(*positions):
    return [[x, 0.0, 0.0, 0.0] for x in positions]


@BOTH
def test_centring_pays_for_coming_closer_and_nothing_in_the_end(xp):
    # gamma 0.5, scale 2: the potential is 2 in the middle, 1 half way out, 0 at the edge. Three carts: one comes in
    # (0.5 * 2 - 1), one is cut where it stood (0.5 * 1 - 1), one falls (0.5 * 0 - 1); then the next episodes.
    shape = Centring(gamma=0.5, scale=2)
    state, step = shape.apply(shape.init(3), plain(xp, cart(1.2, -1.2, 1.2), fresh=1))
    assert step.components["centring"].tolist() == [0, 0, 0]
    state, step = shape.apply(
        state,
        plain(
            xp, cart(0.0, 0.0, 1.2), cart(0, 1.2, 2.4), reward=(1, 1, 1),
            truncated=(0, 1, 0), terminated=(0, 0, 1), fresh=(0, 1, 1),
        ),
    )  # fmt: skip
    np.testing.assert_allclose(step.components["centring"], [0.0, -0.5, -1.0], atol=1e-6)
    assert step.components["env"].tolist() == step.reward.tolist() == [1, 1, 1]
    np.testing.assert_allclose(step.train_reward, [1.0, 0.5, 0.0], atol=1e-6)
    _, step = shape.apply(state, plain(xp, cart(0.0, 0.0, 0.0)))
    np.testing.assert_allclose(step.components["centring"], [-1.0, -1.0, 0.0], atol=1e-6)  # 0.5*2-2, 0.5*2-2, 0.5*2-1
    assert isinstance(step.train_reward, np.ndarray if xp is np else jax.Array)
    assert step.train_reward.dtype == np.float32


def test_the_cars_energy_is_kept_where_nobody_pushes():
    # Rolling freely from rest half way up the left side, the sum of height and speed hardly changes; at rest at the
    # bottom there is none, and a car at rest on the goal has all of it.
    energy = Energy()
    position, velocity, told = -0.9, 0.0, []
    for _ in range(60):
        velocity -= 0.0025 * np.cos(3 * position)
        position += velocity
        told.append(float(energy.potential(np.array([[position, velocity]]))[0]))
    assert np.ptp(told) < 0.05
    assert float(energy.potential(np.array([[-np.pi / 6, 0.0]]))[0]) == pytest.approx(0)
    assert float(energy.potential(np.array([[np.pi / 6, 0.0]]))[0]) == pytest.approx(1)


@BOTH
def test_counts_are_of_all_envs_and_bonuses_fade(xp):
    # Cells of half a unit over [0, 2]: envs 0 and 1 both reach cell 1, env 2 cell 3; the first observations count not.
    count = CountBonus(scale=2.0, bins=4)
    count.space(spaces.Box(0.0, 2.0, (1,)))
    state, step = count.apply(count.init(3), plain(xp, [[0.1], [0.1], [0.1]], fresh=1))
    assert not state.any()
    assert step.train_reward.tolist() == [0, 0, 0]
    state, step = count.apply(state, plain(xp, [[0.0], [0.6], [1.9]], [[0.6], [0.9], [2.0]], truncated=(1, 0, 0)))
    assert state.tolist() == [0, 2, 0, 1]
    np.testing.assert_allclose(step.components["count"], [2 / 2**0.5, 2 / 2**0.5, 2], rtol=1e-6)
    state, step = count.apply(state, plain(xp, [[0.6], [0.6], [9.9]]))
    assert state.tolist() == [0, 4, 0, 2]
    np.testing.assert_allclose(step.components["count"], [1, 1, 2 / 2**0.5], rtol=1e-6)
    assert state.dtype == np.int32


def test_counts_of_choices_and_of_several_components():
    count = CountBonus()
    count.space(spaces.Discrete(3, start=2))
    state, _ = count.apply(count.init(1), plain(np, [4], dtype=np.int32))
    assert state.tolist() == [0, 0, 1]
    grid = CountBonus(bins=[2, 3])
    grid.space(spaces.Box(np.array([0.0, 0.0]), np.array([2.0, 3.0]), dtype=np.float64))
    state, _ = grid.apply(grid.init(1), plain(np, [[1.5, 2.5]]))
    assert state.tolist() == [0, 0, 0, 0, 0, 1]
    for wrong in (spaces.Box(-np.inf, np.inf, (1,)), spaces.MultiBinary(2)):
        with pytest.raises(UserError, match="count_bonus needs a Discrete observation or a vector with finite bounds"):
            count.space(wrong)
    with pytest.raises(UserError, match=r"bins=\(2, 3\) must be one number or 1 of them"):
        grid.space(spaces.Box(0.0, 1.0, (1,)))


@pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
def test_the_weighted_parts_add_up_to_the_training_reward(xp):
    stack = (
        Centring(scale=3.0), TimePenalty(cost=0.25), RewardWeights(env=2.0, centring=0.5), ClipReward(to=1.0),
        ScaleReward(factor=0.1),
    )  # fmt: skip
    spaces_ = Spaces(spaces.Box(-9.0, 9.0, (4,)), spaces.Discrete(2), False, 10)
    transformed(spaces_, stack)
    states = tuple(t.init(2) for t in stack)
    states, step = apply_transforms(stack, states, plain(xp, cart(0.0, 1.0), fresh=1), None)
    assert step.train_reward.tolist() == [0, 0]
    rng = np.random.default_rng(0)
    for _ in range(5):
        states, step = apply_transforms(stack, states, plain(xp, rng.normal(size=(2, 4)), reward=(1, -1)), None)
        assert list(step.components) == ["env", "centring", "time", "clipped"]
        assert np.allclose(sum(step.components.values()), step.train_reward, atol=1e-6)
        assert np.allclose(step.components["env"], [0.2, -0.2])  # doubled, then a tenth
        assert np.allclose(step.components["time"], -0.025)
        assert step.reward.tolist() == [1, -1]
        assert (abs(np.asarray(step.train_reward)) <= 0.1 + 1e-6).all()


def test_a_weight_for_a_part_that_nothing_adds_is_the_users_mistake():
    seen = Spaces(spaces.Box(-9.0, 9.0, (4,)), spaces.Discrete(2), False, 10)
    with pytest.raises(UserError, match=r"no part 'centering' of the reward: did you mean 'centring'\?"):
        transformed(seen, (Centring(), RewardWeights(centering=1)))
    with pytest.raises(UserError, match="no part 'time' of the reward"):
        transformed(seen, (RewardWeights(time=1), TimePenalty(cost=1)))
    with pytest.raises(UserError, match=r"Centring reads the env's own observations of shape \(4,\).*put it first"):
        transformed(seen._replace(observation=spaces.Box(0.0, 1.0, (8,))), (Centring(),))


def test_parts_that_the_env_names_are_weighted_like_any_other():
    settings = EnvSettings(
        id=f"{__name__}:Runner",
        wrappers=({"env_parts": {"run": "reward_run", "push": "reward_push"}}, {"reward_weights": {"push": 2.0}}),
    )
    stack = split_wrappers(settings)[1]
    with GymnasiumEngine(settings, 2, 0) as engine:
        assert transformed(engine.spaces, stack).observation == Runner.observation_space
        states, step = apply_transforms(stack, ((), ()), engine.reset(), None)
        assert step.train_reward.tolist() == [0, 0]
        for t in range(1, 4):
            states, step = apply_transforms(stack, states, engine.step(np.array([0, 2])), None)
            assert step.successor.tolist() == [[t], [t]]
            assert step.reward.tolist() == [1.5, 1.0]
            assert {name: part.tolist() for name, part in step.components.items()} == {
                "env": [0.5, 0.5], "run": [1, 1], "push": [0, -1]
            }  # fmt: skip
            assert step.train_reward.tolist() == [1.5, 0.5]
        assert step.obs.tolist() == [[0], [0]]
    with pytest.raises(UserError, match="give keys of the env's info by name"):
        make_env(settings.model_copy(update={"wrappers": (EnvSettings(id="x", wrappers=("env_parts",)).wrappers)}))
