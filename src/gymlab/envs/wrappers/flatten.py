"""`flatten`: a Dict or Tuple of observations (or any other space) becomes one vector."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from pydantic import PrivateAttr

from gymlab.core.arrays import namespace
from gymlab.core.types import Array, Space, Tree, VecStep
from gymlab.envs.observation_spaces import leaf_spaces, leaf_values, to_vector, vector_space
from gymlab.envs.transform import BaseTransform, map_observations


class Flatten(BaseTransform):
    """Entries in the order of the space; choices one-hot, bytes scaled to [0, 1]."""

    _before: Space = PrivateAttr()

    def space(self, space: Space) -> spaces.Box:
        self._before = space
        parts = [vector_space(leaf) for leaf in leaf_spaces(space)]
        low, high = (np.concatenate([getattr(part, end) for part in parts]) for end in ("low", "high"))
        return spaces.Box(low, high, dtype=np.float32)

    def apply(self, state: Tree, step: VecStep, key: Array | None = None) -> tuple[Tree, VecStep]:  # noqa: ARG002
        return state, map_observations(step, self._flat)

    def _flat(self, obs: Tree) -> Array:
        pairs = zip(leaf_spaces(self._before), leaf_values(self._before, obs), strict=True)
        parts = [to_vector(leaf, value) for leaf, value in pairs]
        return namespace(parts[0]).concatenate(parts, -1)
