"""The arrays of one VecStep in a single block of bytes, so that a step is one message between processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from gymlab.core.errors import UserError
from gymlab.core.types import Masked, Space, Spaces, Tree, VecStep
from gymlab.envs.episode_digest import EpisodeDigest
from gymlab.envs.gymnasium_types import EnvValue
from gymlab.envs.observation_spaces import is_supported_leaf

_ALIGN = 16
Put = Callable[[int, EnvValue], None]


class BadObservation(Exception):
    """An observation that does not match the env's space."""


class StepArrays(NamedTuple):
    """The numbers of a step, (N,) each, for engines to write into."""

    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    fresh: np.ndarray


class StepBuffer:
    """`step` is one VecStep over reused arrays, `episode` the index of each env's episode, `digest` its hash so far.

    `block` holds the bytes of all of them behind an empty header.
    """

    def __init__(self, env_spaces: Spaces, n: int) -> None:
        self._layout: list[tuple[int, tuple[int, ...], np.dtype[np.generic]]] = []
        self._size = _ALIGN
        width = action_width(env_spaces.action) if env_spaces.masked else 0

        def plan_obs() -> Tree:
            tree = _map_space(
                env_spaces.observation, lambda space: self._plan((n, *leaf_shape(space)), leaf_dtype(space))
            )
            mask: Any = self._plan((n, width), np.dtype(bool)) if env_spaces.masked else None
            return tree if mask is None else Masked(tree, mask)  # of places in the layout

        obs = plan_obs()
        successor = plan_obs()
        reward = self._plan((n,), np.dtype(np.float32))
        flags = [self._plan((n,), np.dtype(bool)) for _ in range(3)]
        episode = self._plan((n,), np.dtype(np.int64))
        digests = self._plan((n,), np.dtype(np.uint64))
        self.block = np.zeros(self._size, np.uint8)
        self.arrays = StepArrays(self._place(reward), *(self._place(flag) for flag in flags))
        self.step = VecStep(
            obs=self._place(obs),
            successor=self._place(successor),
            reward=self.arrays.reward,
            train_reward=self._place(reward),
            components={},
            terminated=self.arrays.terminated,
            truncated=self.arrays.truncated,
            fresh=self.arrays.fresh,
        )
        self.episode: np.ndarray = self._place(episode)
        values: np.ndarray = self._place(digests)
        self.obs_leaves = list(leaves(self.step.obs))
        self.successor_leaves = list(leaves(self.step.successor))
        own = self.arrays
        flat = [own.reward, own.terminated, own.truncated, own.fresh, self.episode, values]
        self.all = [*self.obs_leaves, *self.successor_leaves, *flat]
        self.digest = EpisodeDigest(
            values, self.block, self.obs_leaves, self.successor_leaves, own.reward, own.terminated
        )

    def _plan(self, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> int:
        self._layout.append((self._size, shape, dtype))
        self._size += -(-math.prod(shape) * dtype.itemsize // _ALIGN) * _ALIGN
        return len(self._layout) - 1

    def _place(self, planned: Tree) -> Tree:
        if isinstance(planned, int):
            begin, shape, dtype = self._layout[planned]
            return self.block[begin : begin + math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)
        if isinstance(planned, Masked):
            return Masked(self._place(planned.obs), self._place(planned.mask))
        if isinstance(planned, dict):
            return {key: self._place(inner) for key, inner in planned.items()}
        return tuple(self._place(inner) for inner in planned)

    def without_transition(self) -> VecStep:
        """The step with zero rewards and no endings, and `successor` equal to `obs`."""
        for array in (self.arrays.reward, self.arrays.terminated, self.arrays.truncated):
            array.fill(0)
        for successor, obs in zip(self.successor_leaves, self.obs_leaves, strict=True):
            np.copyto(successor, obs)
        return self.step

    def truncate(self, row: int, last: StepBuffer, last_row: int) -> None:
        """Truncate a transition that failed: reward 0, and the last valid observation as its successor."""
        for successor, obs in zip(self.successor_leaves, last.obs_leaves, strict=True):
            successor[row] = obs[last_row]
        self.step.reward[row] = 0.0
        self.step.terminated[row] = False
        self.step.truncated[row] = self.step.fresh[row] = True


def leaves(tree: Tree) -> Iterator[np.ndarray]:
    """The arrays of an observation, in the order of its space."""
    if isinstance(tree, np.ndarray):
        yield tree
        return
    for inner in tree.values() if isinstance(tree, dict) else tree:
        yield from leaves(inner)


def check_supported(observation: Space, action: Space) -> None:
    """UserError where a space is of a kind that policies do not support."""
    if not is_supported_leaf(action):
        raise UserError(f"action space {action} is not supported: use Discrete, MultiDiscrete, MultiBinary or Box")
    _map_space(observation, leaf_shape)


def leaf_shape(space: Space) -> tuple[int, ...]:
    """The shape of one value of a space that has no parts."""
    return tuple(space.shape or ())


def leaf_dtype(space: Space) -> np.dtype[np.generic]:
    """The dtype in which gymlab keeps values of a space."""
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return np.dtype(np.int32)
    if isinstance(space, spaces.MultiBinary):
        return np.dtype(np.int8)
    return np.dtype(np.float32) if space.dtype == np.float64 else np.dtype(space.dtype)


def action_width(space: Space) -> int:
    """How many actions a mask covers."""
    if not isinstance(space, spaces.Discrete):
        raise UserError(f"action masks need a Discrete action space, got {space}: set env.action_mask to false")
    return int(space.n)


def _map_space(space: Space, leaf: Callable[[Any], Any], name: str = "observation") -> Tree:
    if isinstance(space, spaces.Dict):
        return {key: _map_space(inner, leaf, f"{name}['{key}']") for key, inner in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_map_space(inner, leaf, f"{name}[{i}]") for i, inner in enumerate(space.spaces))
    if not is_supported_leaf(space):
        raise UserError(
            f"{name}: observation space {space} is not supported: use Box, Discrete, MultiDiscrete, MultiBinary, "
            "Dict or Tuple"
        )
    return leaf(space)


def writer(space: Space, tree: Tree, name: str = "observation") -> Put:
    """A function that writes one env's observation into row i of `tree`: the hot path.

    Shapes and dtypes are compared with the space's; whether numbers are finite is for the caller to check, for all envs
    at once.
    """
    if isinstance(space, spaces.Dict | spaces.Tuple):
        keys = list(space.spaces) if isinstance(space, spaces.Dict) else range(len(space.spaces))
        inner = [(key, writer(space.spaces[key], tree[key], f"{name}[{key!r}]")) for key in keys]  # type: ignore[index]

        def put(row: int, obs: Any) -> None:  # a dict or a tuple, as `checked_writer` has seen
            for key, put_leaf in inner:
                put_leaf(row, obs[key])

        return put

    shape = leaf_shape(space)
    array = np.ndarray
    known: Any = leaf_dtype(space)  # the dtype, or the type of a bare number, that was last found to be right

    def put_leaf(row: int, obs: EnvValue) -> None:
        nonlocal known
        if type(obs) is array:
            if obs.shape != shape or obs.dtype is not known:
                checked_leaf(space, obs, name)
                known = obs.dtype
        elif type(obs) is not known:
            checked_leaf(space, obs, name)
            known = type(obs) if isinstance(obs, int | float | np.generic) else None
        tree[row] = obs

    return put_leaf


def checked_writer(space: Space, tree: Tree, name: str = "observation") -> Put:
    """The same for the first observation of an episode, whose values are checked too."""
    if isinstance(space, spaces.Dict):
        keyed = {key: checked_writer(inner, tree[key], f"{name}['{key}']") for key, inner in space.spaces.items()}

        def put_dict(row: int, obs: EnvValue) -> None:
            if not isinstance(obs, dict) or set(obs) != set(keyed):
                found = sorted(obs) if isinstance(obs, dict) else type(obs).__name__
                raise BadObservation(f"{name} must be a dict with keys {sorted(keyed)}, got {found}")
            for key, put_leaf in keyed.items():
                put_leaf(row, obs[key])

        return put_dict
    if isinstance(space, spaces.Tuple):
        placed = [checked_writer(inner, tree[i], f"{name}[{i}]") for i, inner in enumerate(space.spaces)]

        def put_tuple(row: int, obs: EnvValue) -> None:
            if not isinstance(obs, tuple | list) or len(obs) != len(placed):
                raise BadObservation(f"{name} must be a tuple of {len(placed)}, got {obs!r}")
            for put_leaf, value in zip(placed, obs, strict=True):
                put_leaf(row, value)

        return put_tuple

    shape = leaf_shape(space)
    dtype = leaf_dtype(space)

    def put_leaf(row: int, obs: EnvValue) -> None:
        array = np.asarray(obs)
        if array.shape != shape or array.dtype != dtype or (dtype.kind == "f" and not np.isfinite(array).all()):
            array = checked_leaf(space, obs, name)
        tree[row] = array

    return put_leaf


def checked_leaf(space: Space, value: EnvValue, name: str) -> np.ndarray:
    """`value` as an array; BadObservation unless it has the shape and kind of `space` and is finite."""
    array = np.asarray(value)
    if array.shape != leaf_shape(space):
        raise BadObservation(f"{name} has shape {array.shape}, its space says {leaf_shape(space)}")
    whole = array.dtype.kind in "iub" and leaf_dtype(space).kind in "iub"
    if not whole and not np.can_cast(array.dtype, leaf_dtype(space), "same_kind"):
        raise BadObservation(f"{name} has dtype {array.dtype}, its space says {space.dtype}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise BadObservation(f"{name} holds NaN or infinity: {array.tolist()}")
    return array
