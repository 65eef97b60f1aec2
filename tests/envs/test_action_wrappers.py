"""Transforms of actions on their way to the env."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from gymlab.core.errors import UserError
from gymlab.core.types import Masked, Spaces
from gymlab.envs.transform import transformed
from gymlab.envs.wrappers.action_noise import ActionNoise
from gymlab.envs.wrappers.mask_actions import MaskActions
from gymlab.envs.wrappers.previous_actions import PreviousActions
from gymlab.envs.wrappers.remap_actions import RemapActions
from gymlab.training.state import transform_action
from tests.stepping import BOTH, vec_step

pytestmark = pytest.mark.fast

KEY = jax.random.key(0)
VECTOR = spaces.Box(-1.0, 1.0, (1,))


def given(action, *, masked=False):
    return Spaces(VECTOR, action, masked, 10)


@BOTH
def test_remapped_actions_are_looked_up_and_masks_follow(xp):
    remap = RemapActions(to=[3, 1])
    seen = remap.spaces(given(spaces.Discrete(4, start=1), masked=True))
    assert seen.action == spaces.Discrete(2)
    assert remap.act((), xp.asarray([0, 1, 0]))[1].tolist() == [3, 1, 3]
    step = vec_step(xp, [[0.0]])
    masked = Masked(step.obs, xp.asarray([[True, False, False, True]]))
    _, step = remap.apply((), step._replace(obs=masked, successor=masked))
    assert step.obs.mask.tolist() == step.successor.mask.tolist() == [[False, True]]


@BOTH
def test_a_continuous_env_gets_a_few_fixed_actions(xp):
    remap = RemapActions(to=[[-2], [0], [1.5]])
    assert remap.spaces(given(spaces.Box(-2.0, 2.0, (1,)))).action == spaces.Discrete(3)
    _, sent = remap.act((), xp.asarray([2, 0]))
    assert sent.tolist() == [[1.5], [-2]]
    assert sent.dtype == np.float32


@pytest.mark.parametrize(
    ("wrapper", "action", "told"),
    [
        (RemapActions(to=[0, 4]), spaces.Discrete(4), r"4 is no action of Discrete\(4\)"),
        (RemapActions(to=[1.5]), spaces.Discrete(4), "1.5 is no action"),
        (RemapActions(to=["left"]), spaces.Discrete(4), "'left' is no action"),
        (RemapActions(to=[[3]]), spaces.Box(-2.0, 2.0, (1,)), r"\[3\] is no action"),
        (MaskActions(never=[2]), spaces.Discrete(2), "there is no action 2: the env has 2, counted from 0"),
        (MaskActions(never=[0, 1]), spaces.Discrete(2), "no action is left"),
        (MaskActions(never=[0]), VECTOR, "mask_actions needs Discrete actions"),
        (ActionNoise(amount=0.1), spaces.MultiBinary(2), "action_noise needs Discrete or bounded Box"),
    ],
)
def test_what_the_action_space_does_not_allow_is_told(wrapper, action, told):
    with pytest.raises(UserError, match=told):
        wrapper.spaces(given(action))


@BOTH
def test_masked_actions_are_illegal_unless_nothing_else_is_left(xp):
    mask = MaskActions(never=[1])
    assert mask.spaces(given(spaces.Discrete(3))).masked
    _, step = mask.apply((), vec_step(xp, [[0.0], [0.0]]))
    assert step.obs.mask.tolist() == step.successor.mask.tolist() == [[True, False, True]] * 2
    step = vec_step(xp, [[0.0], [0.0]])
    masked = Masked(step.obs, xp.asarray([[True, True, False], [False, True, False]]))
    _, step = mask.apply((), step._replace(obs=masked, successor=masked))
    assert step.obs.mask.tolist() == [[True, False, False], [False, True, False]]


def test_discrete_noise_replaces_a_share_by_any_legal_action():
    noise = ActionNoise(amount=0.3)
    noise.spaces(given(spaces.Discrete(3, start=5), masked=True))
    n = 6000
    step = vec_step(np, np.zeros((n, 1)))
    mask = np.tile([True, True, False], (n, 1))
    state, out = noise.apply(noise.init(n), step._replace(obs=Masked(step.obs, mask)), None)
    assert out.obs.mask is mask
    _, sent = noise.act(state, np.full(n, 5), KEY)
    assert set(np.unique(sent)) == {5, 6}
    assert abs(np.mean(sent == 6) - 0.15) < 0.02  # half of the replaced ones
    _, same = noise.act(jnp.asarray(state), jnp.full(n, 5), KEY)
    assert same.tolist() == sent.tolist()


@BOTH
def test_continuous_noise_is_a_share_of_the_range_and_stays_inside(xp):
    noise = ActionNoise(amount=0.1)
    noise.spaces(given(spaces.Box(-2.0, 2.0, (1,))))
    _, sent = noise.act((), xp.zeros((5000, 1), xp.float32), KEY)
    assert abs(float(np.std(sent)) - 0.2) < 0.01
    _, sent = noise.act((), xp.full((5000, 1), 2.0, xp.float32), KEY)
    assert float(sent.max()) == 2.0
    assert sent.dtype == np.float32


def test_the_outermost_sees_the_policys_action_and_the_innermost_the_envs():
    # Outside the remapping action 1 of 2 is remembered; inside it, the env's action 2 of 3.
    inner, outer = PreviousActions(), PreviousActions()
    stack = (inner, RemapActions(to=[0, 2]), outer)
    seen = transformed(given(spaces.Discrete(3)), stack)
    assert seen.observation.shape == (1 + 3 + 2,)
    assert seen.action == spaces.Discrete(2)
    states, sent = transform_action(stack, tuple(t.init(1) for t in stack), np.array([1]), None)
    assert sent.tolist() == [2]
    assert states[0].tolist() == [[[0, 0, 1]]]
    assert states[2].tolist() == [[[0, 1]]]
