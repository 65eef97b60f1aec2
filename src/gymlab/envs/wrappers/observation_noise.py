"""`observation_noise: 0.01`: Gaussian noise on what the policy sees, in training only unless asked for."""

from __future__ import annotations

import itertools
from typing import Annotated, ClassVar

from gymnasium import spaces
from pydantic import Field, PrivateAttr

from gymlab.core.arrays import namespace, where_rows
from gymlab.core.clock import Number
from gymlab.core.errors import UserError
from gymlab.core.types import Array, Space, Tree, VecStep
from gymlab.envs.observation_spaces import leaf_spaces, map_leaves
from gymlab.envs.random_ops import normal
from gymlab.envs.transform import BaseTransform, is_reset, map_unmasked, unmasked


class ObservationNoise(BaseTransform):
    """Numbers (Box) get noise, choices do not. Whole numbers, as of pictures, are rounded and stay in their bounds.

    The space keeps its bounds, so that training and evaluation see the same one: noise may lead a little outside.
    """

    random: ClassVar[bool] = True
    training_only: ClassVar[bool] = True
    leaves_bounds: ClassVar[bool] = True

    std: Annotated[Number, Field(ge=0)]
    """Standard deviation, in the units of the observation."""
    in_evaluation: bool = False
    """Also in evaluation."""

    _space: Space = PrivateAttr()

    def space(self, space: Space) -> Space:
        if not any(isinstance(leaf, spaces.Box) for leaf in leaf_spaces(space)):
            raise UserError(f"observation_noise needs numbers (a Box) in the observation, got {space}")
        self._space = space
        return space

    def apply(self, state: Tree, step: VecStep, key: Array | None) -> tuple[Tree, VecStep]:
        last = self._noisy(unmasked(step.successor), key, 0)
        new = self._noisy(unmasked(step.obs), key, 1)

        def either(mask: Array) -> Tree:
            return map_leaves(self._space, lambda _, yes, no: where_rows(mask, yes, no), new, last)

        # One observation has one noise: `obs` and `successor` differ only where an episode ended.
        obs = either(step.fresh)
        successor = either(is_reset(step))
        return state, step._replace(
            obs=map_unmasked(step.obs, lambda _: obs), successor=map_unmasked(step.successor, lambda _: successor)
        )

    def _noisy(self, obs: Tree, key: Array | None, stream: int) -> Tree:
        streams = itertools.count(stream, 2)  # one for each leaf

        def change(leaf: Space, value: Array) -> Array:
            own = next(streams)
            if not isinstance(leaf, spaces.Box):
                return value
            noisy = value + self.std * normal(key, own, value)
            if value.dtype.kind == "f":
                return noisy.astype(value.dtype)
            xp = namespace(value)
            return xp.clip(xp.round(noisy), leaf.low, leaf.high).astype(value.dtype)

        return map_leaves(self._space, change, obs)
