"""Transforms of what the policy sees, worked out by hand, for NumPy and JAX arrays."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from gymlab.core.errors import UserError
from gymlab.core.types import Masked, Spaces
from gymlab.envs.image_ops import shrink
from gymlab.envs.make import make_env
from gymlab.envs.settings import EnvSettings
from gymlab.envs.transform import transformed
from gymlab.envs.wrappers.flatten import Flatten
from gymlab.envs.wrappers.grayscale import Grayscale
from gymlab.envs.wrappers.observation_noise import ObservationNoise
from gymlab.envs.wrappers.one_hot import OneHot
from gymlab.envs.wrappers.previous_actions import PreviousActions
from gymlab.envs.wrappers.resize import Resize
from gymlab.envs.wrappers.scale_observation import ScaleObservation
from gymlab.envs.wrappers.time_aware import TimeAware
from tests.stepping import BOTH, vec_step

VECTOR = spaces.Box(-1.0, 1.0, (1,))
KEY = jax.random.key(0)


def given(observation=VECTOR, action=None, limit=4):
    return Spaces(observation, action or spaces.Discrete(2), False, limit)


@BOTH
def test_previous_actions_follow_the_observation_and_start_as_zeros(xp):
    # Two envs, three actions from 1 on, k = 2; env 1 is cut at the second step.
    past = PreviousActions(k=2)
    space = past.spaces(given(action=spaces.Discrete(3, start=1))).observation
    assert space.shape == (7,)
    assert space.low.tolist() == [-1, 0, 0, 0, 0, 0, 0]
    state, step = past.apply(past.init(2), vec_step(xp, [[5], [6]], fresh=1))
    assert step.obs.tolist() == step.successor.tolist() == [[5, 0, 0, 0, 0, 0, 0], [6, 0, 0, 0, 0, 0, 0]]
    state, sent = past.act(state, xp.asarray([1, 3]))
    assert sent.tolist() == [1, 3]
    state, step = past.apply(state, vec_step(xp, [[7], [8]]))
    assert step.obs.tolist() == [[7, 0, 0, 0, 1, 0, 0], [8, 0, 0, 0, 0, 0, 1]]
    state, _ = past.act(state, xp.asarray([2, 2]))
    state, step = past.apply(state, vec_step(xp, [[9], [1]], [[9], [0]], truncated=(0, 1), fresh=(0, 1)))
    assert step.successor.tolist() == [[9, 1, 0, 0, 0, 1, 0], [0, 0, 0, 1, 0, 1, 0]]
    assert step.obs.tolist() == [[9, 1, 0, 0, 0, 1, 0], [1, 0, 0, 0, 0, 0, 0]]
    assert step.obs.dtype == np.float32
    assert isinstance(step.obs, np.ndarray if xp is np else jax.Array)


@BOTH
def test_previous_rewards_stand_beside_their_actions(xp):
    past = PreviousActions(k=1, rewards=True)
    assert past.spaces(given(spaces.Discrete(1))).observation["previous_actions"].shape == (3,)
    state, _ = past.apply(past.init(2), vec_step(xp, [0, 0], fresh=1, dtype=np.int32))
    state, _ = past.act(state, xp.asarray([1, 0]))
    _, step = past.apply(state, vec_step(xp, [0, 0], reward=(2.5, -1), dtype=np.int32))
    assert step.obs["previous_actions"].tolist() == [[0, 1, 2.5], [1, 0, -1]]
    assert step.obs["obs"].tolist() == [0, 0]


def test_previous_actions_of_a_box_are_its_numbers_and_masks_stay_outside():
    past = PreviousActions()
    space = past.spaces(given(action=spaces.Box(1.0, 2.0, (2,)))).observation
    assert space.low.tolist() == [-1, 0, 0]  # zeros stand for no action
    step = vec_step(np, [[5.0]], fresh=1)
    mask = np.ones((1, 2), bool)
    state, step = past.apply(past.init(1), step._replace(obs=Masked(step.obs, mask), successor=Masked(step.obs, mask)))
    assert step.obs.mask is mask
    state, _ = past.act(state, np.array([[1.5, 2.0]], np.float32))
    assert past.apply(state, vec_step(np, [[5.0]]))[1].obs.tolist() == [[5.0, 1.5, 2.0]]


@BOTH
def test_time_runs_from_zero_to_the_limit(xp):
    time = TimeAware()
    assert time.spaces(given()).observation.high.tolist() == [1, 1]
    state, step = time.apply(time.init(1), vec_step(xp, [[7]], fresh=1))
    told = [step.obs.tolist()]
    for t in range(1, 6):
        state, step = time.apply(state, vec_step(xp, [[7]], truncated=t == 4, fresh=t == 4))
        told.append(step.obs.tolist())
        assert step.successor.tolist() == [[7, (t if t <= 4 else 1) / 4]]
    assert [share for [[_, share]] in told] == [0, 0.25, 0.5, 0.75, 0, 0.25]


@BOTH
def test_noise_is_one_draw_per_observation_and_fresh_where_an_episode_begins(xp):
    noise = ObservationNoise(std=0.5)
    assert noise.space(VECTOR) is VECTOR  # the same space as in evaluation, where there is none
    size = 4000
    _, step = noise.apply((), vec_step(xp, np.zeros((size, 1)), fresh=1), KEY)
    assert step.obs.tolist() == step.successor.tolist()
    assert abs(float(np.std(step.obs)) - 0.5) < 0.03
    cut = np.arange(size) % 2
    _, step = noise.apply((), vec_step(xp, np.zeros((size, 1)), np.ones((size, 1)), truncated=cut, fresh=cut), KEY)
    same = np.asarray(step.obs == step.successor)[:, 0]
    assert (same == (cut == 0)).all()
    assert step.obs.dtype == np.float32
    assert isinstance(step.obs, np.ndarray if xp is np else jax.Array)
    _, other = noise.apply((), vec_step(xp, np.zeros((size, 1))), jax.random.key(1))
    assert (np.asarray(other.obs) != np.asarray(step.obs)).all()


def test_noise_is_the_same_for_numpy_and_jax():
    noise = ObservationNoise(std=1)
    noise.space(VECTOR)
    one, two = (noise.apply((), vec_step(xp, [[1.0], [2.0]]), KEY)[1].obs for xp in (np, jnp))
    np.testing.assert_allclose(one, two, rtol=1e-6)


def test_noise_keeps_bytes_bytes_and_leaves_choices_alone():
    noise = ObservationNoise(std=30)
    noise.space(spaces.Dict({"picture": spaces.Box(0, 255, (8, 8), np.uint8), "choice": spaces.Discrete(3)}))
    step = vec_step(np, [[0.0], [0.0]])
    obs = {"picture": np.full((2, 8, 8), 250, np.uint8), "choice": np.array([1, 2], np.int32)}
    _, step = noise.apply((), step._replace(obs=obs, successor=obs), KEY)
    assert step.obs["picture"].dtype == np.uint8
    assert step.obs["picture"].max() == 255
    assert step.obs["picture"].min() > 100  # nothing has wrapped around
    assert step.obs["choice"].tolist() == [1, 2]
    with pytest.raises(UserError, match="observation_noise needs numbers"):
        noise.space(spaces.Discrete(3))


@BOTH
def test_one_hot_turns_choices_into_vectors_and_flatten_trees_into_one(xp):
    tree = spaces.Dict({"a": spaces.Discrete(3, start=1), "b": spaces.Box(-2.0, 2.0, (2, 1), np.float64)})
    obs = {"a": xp.asarray([3, 1]), "b": xp.asarray([[[0.5], [1.0]], [[-2.0], [2.0]]], dtype=xp.float32)}
    step = vec_step(xp, [0, 0])._replace(obs=obs, successor=obs)
    hot = OneHot()
    assert hot.space(tree)["a"].shape == (3,)
    _, out = hot.apply((), step)
    assert out.obs["a"].tolist() == out.successor["a"].tolist() == [[0, 0, 1], [1, 0, 0]]
    assert out.obs["b"] is obs["b"]
    flat = Flatten()
    space = flat.space(tree)
    assert space.low.tolist() == [0, 0, 0, -2, -2]
    _, out = flat.apply((), step)
    assert out.obs.tolist() == [[0, 0, 1, 0.5, 1.0], [1, 0, 0, -2.0, 2.0]]
    pair = spaces.Tuple([spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(2), spaces.Box(0, 255, (1,), np.uint8)])
    obs = (xp.asarray([[1, 2]]), xp.asarray([[0, 1]], dtype=xp.int8), xp.asarray([[51]], dtype=xp.uint8))
    assert flat.space(pair).shape == (8,)
    _, out = flat.apply((), vec_step(xp, [0])._replace(obs=obs, successor=obs))
    assert out.obs.tolist() == [[0, 1, 0, 0, 1, 0, 1, pytest.approx(0.2)]]
    with pytest.raises(UserError, match="one_hot needs choices"):
        hot.space(VECTOR)


@BOTH
def test_scaling_maps_the_bounds_and_leaves_what_has_none(xp):
    scale = ScaleObservation(to=(0, 1))
    space = scale.space(spaces.Box(np.array([-2.0, -np.inf]), np.array([6.0, np.inf]), dtype=np.float64))
    assert space.low.tolist() == [0, -np.inf]
    _, step = scale.apply((), vec_step(xp, [[-2, 7], [4, -7]]))
    assert step.obs.tolist() == step.successor.tolist() == [[0, 7], [0.75, -7]]
    assert ScaleObservation().space(spaces.Box(0, 255, (2, 2), np.uint8)).low.tolist() == [[-1, -1], [-1, -1]]
    with pytest.raises(UserError, match="no component of"):
        scale.space(spaces.Box(-np.inf, np.inf, (2,)))


@BOTH
def test_pictures_become_grey_and_small(xp):
    # Pure red, green, blue and white; then two 2x2 areas, one of them half bright.
    grey = Grayscale()
    assert grey.space(spaces.Box(0, 255, (2, 2, 3), np.uint8)).shape == (2, 2)
    colours = [[[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [255, 255, 255]]]]
    _, step = grey.apply((), vec_step(xp, colours, dtype=np.uint8))
    assert step.obs.tolist() == [[[76, 150], [29, 255]]]
    small = Resize(to=[1, 2])
    assert small.space(spaces.Box(0, 255, (2, 4), np.uint8)).shape == (1, 2)
    _, step = small.apply((), vec_step(xp, [[[0, 0, 200, 0], [0, 0, 0, 200]]], dtype=np.uint8))
    assert step.obs.tolist() == [[[0, 100]]]
    assert step.obs.dtype == np.uint8
    colour = Resize(to=1)
    assert colour.space(spaces.Box(0, 255, (2, 1, 3), np.uint8)).shape == (1, 1, 3)
    _, step = colour.apply((), vec_step(xp, [[[[10, 20, 30]], [[30, 40, 50]]]], dtype=np.uint8))
    assert step.obs.tolist() == [[[[20, 30, 40]]]]


def test_shrinking_by_no_whole_number_keeps_the_mean():
    picture = np.random.default_rng(0).integers(0, 256, (7, 10), np.uint8)
    small = shrink(picture, (3, 4))
    assert abs(float(small.mean()) - float(picture.mean())) < 1
    assert shrink(picture, (7, 10)).tolist() == picture.tolist()
    # The first new row of three covers two old ones and a third of the next.
    column = shrink(np.array([[30], [60], [90], [0], [0], [0], [0]], np.uint8), (3, 1))
    assert column[0, 0] == round((30 + 60 + 90 / 3) / (7 / 3))


def test_pixels_show_the_envs_own_picture():
    env = make_env(EnvSettings(id="CartPole-v1", wrappers=({"pixels": {"size": [20, 30], "rows": [0.4, 0.8]}},)))
    first, _ = env.reset(seed=0)
    assert env.observation_space.contains(first)
    assert first.shape == (20, 30)
    for _ in range(5):
        obs, reward, *_ = env.step(1)
    assert reward == 1
    assert (obs != first).any()
    again, _ = env.reset(seed=0)
    assert again.tolist() == first.tolist()
    env.close()


def test_every_transform_passes_on_the_space_of_the_one_before():
    both = (OneHot(), PreviousActions(k=1), TimeAware())
    seen = transformed(given(spaces.Discrete(4)), both)
    assert seen.observation.shape == (4 + 2 + 1,)
    assert seen.action == spaces.Discrete(2)
