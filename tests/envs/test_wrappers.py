"""What wrappers and transforms do, worked out by hand, for NumPy and JAX arrays."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from gymlab.core.errors import UserError
from gymlab.core.types import Masked
from gymlab.envs.make import make_env
from gymlab.envs.settings import EnvSettings
from gymlab.envs.wrappers import WRAPPERS, is_transform, load_wrapper
from gymlab.envs.wrappers.clip_reward import ClipReward
from gymlab.envs.wrappers.frame_stack import FrameStack
from gymlab.envs.wrappers.scale_reward import ScaleReward
from tests.stepping import BOTH
from tests.stepping import vec_step as _step

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("wrapper", "told"),
    [
        ("frame_stak", "unknown wrapper 'frame_stak': did you mean 'frame_stack'?"),
        ({"frame_stack": {"n": 4}}, "wrapper 'frame_stack': unknown argument 'n'"),
        ({"frame_stack": 0}, "wrapper 'frame_stack': k=0"),
        ("scale_reward", "wrapper 'scale_reward': the argument 'factor' is missing"),
        ({"clip_reward": "sing"}, "expected sign, a bound above 0 or [low, high], got 'sing'"),
        ({"frame_skip": {"n": 2}}, "wrapper 'frame_skip': unknown argument 'n': choose one of: k"),
        ({"frame_skip": 0}, "wrapper 'frame_skip': k=0 must be"),
        ({"sticky_actions": 1.5}, "probability=1.5 must be"),
        ("math:pi", "wrapper 'math:pi' is no class"),
    ],
)
def test_a_wrong_wrapper_is_explained(wrapper: object, told: str) -> None:
    with pytest.raises(UserError) as error:
        make_env(EnvSettings(id="CartPole-v1", wrappers=(wrapper,)))
    assert told in str(error.value)


def test_every_wrapper_of_the_table_loads_as_its_kind() -> None:
    around_each_env = {
        "doom", "drop_keys", "env_parts", "frame_skip", "keep_keys", "pixels", "randomize", "sticky_actions"
    }  # fmt: skip
    ours = {name for name, place in WRAPPERS.items() if "atari" not in place}
    assert {name for name in ours if not is_transform(load_wrapper(name))} == around_each_env


def test_sticky_actions_are_a_function_of_the_episode_seed() -> None:
    env = make_env(EnvSettings(id="CartPole-v1", wrappers=({"sticky_actions": 0.5},)))

    def trace() -> list:
        env.reset(seed=3)
        return [env.step(t % 2)[0].tolist() for t in range(8)]

    bare = make_env(EnvSettings(id="CartPole-v1"))
    bare.reset(seed=3)
    first = trace()
    assert first == trace()
    assert first != [bare.step(t % 2)[0].tolist() for t in range(8)]


def test_frame_skip_sums_rewards_and_stops_at_the_end() -> None:
    env = make_env(EnvSettings(id="tests.example_envs:Forever-v0", wrappers=({"frame_skip": 4},)))
    env.reset(seed=0)
    # The limit of 10 counts the env's own steps: 4 + 4 + 2.
    assert [env.step(0)[1:4] for _ in range(3)] == [(4.0, False, False), (4.0, False, False), (2.0, False, True)]


@pytest.mark.parametrize("wrapper", [{"frame_skip": 6}, {"sticky_actions": 0.9}])
def test_an_action_is_not_held_where_a_mask_forbids_it(wrapper: object) -> None:
    # The env raises where an action leads into a wall, so that left can be held for as long as there is room.
    env = make_env(EnvSettings(id="tests.example_envs:Masked-v0", wrappers=(wrapper,)))
    taken = 0
    for seed in range(20):
        _, info = env.reset(seed=seed)
        for _ in range(8):
            _, _, ended, cut, info = env.step(int(np.flatnonzero(info["action_mask"])[0]))
            taken += 1
            if ended or cut:
                break
    assert taken > 20


@BOTH
def test_scale_reward_leaves_the_reported_reward_alone(xp) -> None:
    _, step = ScaleReward(factor=0.5).apply((), _step(xp, [[1.0], [2.0]], reward=(4.0, -2.0)), None)
    assert step.train_reward.tolist() == [2.0, -1.0]
    assert step.components["a"].tolist() == [2.0, -1.0]
    assert step.reward.tolist() == [4.0, -2.0]
    assert isinstance(step.train_reward, np.ndarray if xp is np else jax.Array)
    assert step.train_reward.dtype == np.float32


@BOTH
def test_clip_reward_takes_the_sign_or_a_range(xp) -> None:
    step = _step(xp, [[1.0], [2.0]], reward=(4.0, -0.5))
    assert ClipReward().apply((), step)[1].train_reward.tolist() == [1.0, -1.0]
    assert ClipReward(to=(-0.25, 2)).apply((), step)[1].train_reward.tolist() == [2.0, -0.25]
    assert ClipReward(to=1).apply((), step)[1].train_reward.tolist() == [1.0, -0.5]
    assert ClipReward().apply((), step)[1].reward.tolist() == [4.0, -0.5]


@BOTH
def test_frame_stack_shows_the_last_k_and_starts_clean(xp) -> None:
    # Two envs with observations of two numbers, k = 3; env 1 is cut at the second step and begins again with [90, 91].
    stack = FrameStack(k=3)
    space = stack.space(spaces.Box(-1.0, np.array([1.0, 2.0]), (2,), np.float64))
    assert space.shape == (6,)
    assert space.dtype == np.float32
    assert space.high.tolist() == [1, 2, 1, 2, 1, 2]
    state = stack.init(2)
    state, step = stack.apply(state, _step(xp, [[1, 2], [10, 20]], fresh=(1, 1)))
    assert step.obs.tolist() == [[1, 2, 1, 2, 1, 2], [10, 20, 10, 20, 10, 20]]
    assert step.successor.tolist() == step.obs.tolist()
    state, step = stack.apply(state, _step(xp, [[3, 4], [90, 91]], [[3, 4], [30, 40]], truncated=(0, 1), fresh=(0, 1)))
    assert step.obs.tolist() == [[1, 2, 1, 2, 3, 4], [90, 91, 90, 91, 90, 91]]
    assert step.successor.tolist() == [[1, 2, 1, 2, 3, 4], [10, 20, 10, 20, 30, 40]]
    state, step = stack.apply(state, _step(xp, [[5, 6], [92, 93]]))
    assert step.obs.tolist() == [[1, 2, 3, 4, 5, 6], [90, 91, 90, 91, 92, 93]]
    assert step.successor.tolist() == step.obs.tolist()
    assert step.obs.dtype == np.float32
    assert isinstance(step.obs, np.ndarray if xp is np else jax.Array)


@BOTH
def test_frame_stack_goes_on_through_an_ending_that_is_not_fresh(xp) -> None:
    # Episodic life: terminated, but the env's episode continues, and so does the stack.
    stack = FrameStack(k=2)
    stack.space(spaces.Box(-1.0, 1.0, (1,)))
    state, _ = stack.apply(stack.init(2), _step(xp, [[1], [2]], fresh=(1, 1)))
    _, step = stack.apply(state, _step(xp, [[3], [4]], terminated=(1, 0)))
    assert step.obs.tolist() == [[1, 3], [2, 4]]


def test_frame_stack_works_inside_compiled_code() -> None:
    stack = FrameStack(k=2)
    stack.space(spaces.Box(-1.0, 1.0, (1,)))
    apply = jax.jit(stack.apply)
    state, _ = apply(stack.init(2), _step(jnp, [[1], [2]], fresh=(1, 1)))
    _, step = apply(state, _step(jnp, [[3], [4]]))
    assert step.obs.tolist() == [[1, 3], [2, 4]]


def test_frame_stack_puts_image_channels_last() -> None:
    # One 2x2 grey image and one 1x1 image of three channels; the oldest comes first in the last axis.
    grey = FrameStack(k=2)
    assert grey.space(spaces.Box(0, 255, (2, 2), np.uint8)).shape == (2, 2, 2)
    assert grey._flat(np.array([[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]])).tolist() == [
        [[[1, 5], [2, 6]], [[3, 7], [4, 8]]]
    ]
    colour = FrameStack(k=2)
    assert colour.space(spaces.Box(0, 255, (1, 1, 3), np.uint8)).shape == (1, 1, 6)
    assert colour._flat(np.array([[[[[1, 2, 3]]], [[[4, 5, 6]]]]])).tolist() == [[[[1, 2, 3, 4, 5, 6]]]]
    assert colour.init(5).shape == (5, 2, 1, 1, 3)
    assert colour.init(5).dtype == np.uint8


def test_frame_stack_keeps_action_masks_and_refuses_other_spaces() -> None:
    stack = FrameStack(k=2)
    stack.space(spaces.Box(-1.0, 1.0, (1,)))
    step = _step(np, [[1], [2]], fresh=(1, 1))
    mask = np.ones((2, 3), bool)
    step = step._replace(obs=Masked(step.obs, mask), successor=Masked(step.successor, mask))
    _, step = stack.apply(stack.init(2), step)
    assert step.obs.obs.tolist() == [[1, 1], [2, 2]]
    assert step.obs.mask is mask
    with pytest.raises(UserError, match="frame_stack needs vectors or images"):
        stack.space(spaces.Discrete(3))
