"""`remap_actions: [0, 2, 3]`: the policy chooses from a list of the env's actions."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from pydantic import Field, PrivateAttr

from gymlab.core.arrays import namespace
from gymlab.core.errors import UserError
from gymlab.core.types import Array, Masked, Space, Spaces, Tree, VecStep
from gymlab.envs.gymnasium_types import EnvValue
from gymlab.envs.transform import BaseTransform


class RemapActions(BaseTransform):
    """Fewer, reordered or, for continuous envs, a few fixed actions: `remap_actions: [[-1], [0], [1]]`.

    The policy's actions are 0, 1, ... in the order of the list; labels (`env.actions`) are of these.
    """

    to: tuple[Any, ...] = Field(min_length=1)
    """The env's action for each of the policy's."""

    _table: np.ndarray = PrivateAttr()
    _start: int = PrivateAttr(default=0)

    def spaces(self, inner: Spaces) -> Spaces:
        env_action = inner.action
        table = [_action(entry, env_action) for entry in self.to]
        self._table = np.stack(table)
        self._start = int(env_action.start) if isinstance(env_action, spaces.Discrete) else 0
        return inner._replace(action=spaces.Discrete(len(table)))

    def act(self, state: Tree, action: Array, key: Array | None = None) -> tuple[Tree, Array]:  # noqa: ARG002
        return state, namespace(action).asarray(self._table)[action]

    def apply(self, state: Tree, step: VecStep, key: Array | None = None) -> tuple[Tree, VecStep]:  # noqa: ARG002
        if not isinstance(step.obs, Masked):
            return state, step
        chosen = self._table - self._start

        def pick(obs: Masked) -> Masked:
            return Masked(obs.obs, obs.mask[:, chosen])

        return state, step._replace(obs=pick(step.obs), successor=pick(step.successor))


def _action(entry: EnvValue, space: Space) -> np.ndarray:
    array = np.asarray(entry)
    if array.shape == space.shape and array.dtype.kind in "iuf":
        action = array.astype(space.dtype)
        if space.contains(action) and (action.dtype.kind == "f" or (action == array).all()):
            return action
    raise UserError(f"wrapper 'remap_actions': {entry!r} is no action of {space}")
