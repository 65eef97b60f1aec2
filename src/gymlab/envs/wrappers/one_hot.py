"""`one_hot`: choices in the observation become vectors of zeros with a single one; numbers stay as they are."""

from __future__ import annotations

from pydantic import PrivateAttr

from gymlab.core.errors import UserError
from gymlab.core.types import Array, Space, Tree, VecStep
from gymlab.envs.observation_spaces import is_categorical, leaf_spaces, map_leaves, map_spaces, to_vector, vector_space
from gymlab.envs.transform import BaseTransform, map_observations


class OneHot(BaseTransform):
    """The policy's network encodes choices so by itself: this is for wrappers that need numbers, as frame_stack."""

    _before: Space = PrivateAttr()

    def space(self, space: Space) -> Space:
        if not any(map(is_categorical, leaf_spaces(space))):
            raise UserError(f"one_hot needs choices (Discrete, MultiDiscrete or MultiBinary) in the space, got {space}")
        self._before = space
        return map_spaces(space, lambda leaf: vector_space(leaf) if is_categorical(leaf) else leaf)

    def apply(self, state: Tree, step: VecStep, key: Array | None = None) -> tuple[Tree, VecStep]:  # noqa: ARG002
        return state, map_observations(step, lambda obs: map_leaves(self._before, _hot, obs))


def _hot(leaf: Space, value: Array) -> Array:
    return to_vector(leaf, value) if is_categorical(leaf) else value
