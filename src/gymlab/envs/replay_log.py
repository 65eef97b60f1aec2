"""Replay log of envs: per env its episode's index and the actions since that episode's reset.

Every episode has its own seed, so an env can be rebuilt from these by replaying, in this process or in another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gymlab.core.errors import RunError
from gymlab.core.types import Array, Space, VecStep
from gymlab.envs.step_buffer import StepBuffer, leaf_shape

Progress = Callable[[int, int], None]  # (steps replayed, steps to replay)
Snapshot = dict[str, np.ndarray]

_FIRST_CAPACITY = 1024  # capacity of the action log in steps before it grows
_FIELDS = ("episode", "elapsed", "actions", "digest", "restorable", "restarts")


class Restored(NamedTuple):
    """The result of restoring a snapshot."""

    step: VecStep
    exact: bool  # every env is in the state it was in
    reason: str  # why it is not exact; "" when it is


class ActionLog:
    """`episode` and `elapsed` (steps since the reset) of every env, and its actions."""

    def __init__(self, buffers: StepBuffer, action_space: Space, limit: int) -> None:
        self._buffers = buffers
        self.episode = buffers.episode
        self.episode.fill(-1)
        n = len(self.episode)
        self.elapsed = np.zeros(n, np.int64)
        self._rows = np.arange(n)
        self._log = np.zeros((n, min(_FIRST_CAPACITY, limit), *leaf_shape(action_space)), action_space.dtype)
        self._steps_left = self._log.shape[1]  # until the log may be full

    @property
    def dtype(self) -> np.dtype[np.generic]:
        return self._log.dtype

    def append(self, actions: Array) -> None:
        """Log the actions of the next step; the caller advances `elapsed`."""
        if self._steps_left == 0:
            longest = int(self.elapsed.max())
            if longest == self._log.shape[1]:
                self._grow()
            self._steps_left = self._log.shape[1] - longest
        self._steps_left -= 1
        self._log[self._rows, self.elapsed] = actions

    def replace(self, row: int, actions: Array) -> None:
        """Set the actions an env has taken since its reset."""
        while self._log.shape[1] <= len(actions):
            self._grow()
        self._log[row, : len(actions)] = actions
        self.elapsed[row] = len(actions)
        self._steps_left = 0

    def load(self, snapshot: Snapshot, rebuilt: Array) -> None:
        """Copy a snapshot's actions of the envs that are `rebuilt`; the others have just begun an episode."""
        ends = np.cumsum(snapshot["elapsed"])
        for row in self._rows.tolist():
            begin = ends[row] - snapshot["elapsed"][row] if rebuilt[row] else ends[row]
            self.replace(row, snapshot["actions"][begin : ends[row]])

    def snapshot(self, rows: slice, *, restorable: bool) -> Snapshot:
        """The replay log of these envs: one row per env, and the actions since the resets, concatenated."""
        chosen = self._rows[rows].tolist()
        return {
            "episode": self.episode[rows].copy(),
            "elapsed": self.elapsed[rows].copy(),
            "actions": np.concatenate([self._log[row, : self.elapsed[row]] for row in chosen]),
            "digest": self._buffers.digest.current()[rows],
            "restorable": np.full(len(chosen), restorable),
        }

    def _grow(self) -> None:
        self._log = np.concatenate([self._log, np.zeros_like(self._log)], axis=1)


def rows_snapshot(snapshot: Snapshot, rows: slice) -> Snapshot:
    """The snapshot of some of its envs."""
    ends = np.concatenate([[0], np.cumsum(snapshot["elapsed"])])
    part = {key: snapshot[key][rows] for key in ("episode", "elapsed", "digest", "restorable")}
    return part | {"actions": snapshot["actions"][ends[rows.start] : ends[rows.stop]]}


def check_fields(snapshot: Snapshot) -> None:
    """RunError where a checkpoint's env state lacks a field."""
    missing = [name for name in _FIELDS if name not in snapshot]
    if missing:
        raise RunError(f"the checkpoint's env state lacks {', '.join(missing)}")


def incompatibility(snapshot: Snapshot, n: int, action_space: Space, restorable: bool) -> str:
    """Why a snapshot cannot be replayed at all; "" where it can."""
    if not restorable or not snapshot["restorable"].any():
        return "env objects given from Python cannot be rebuilt: new episodes began"
    if len(snapshot["episode"]) != n:
        return f"the checkpoint holds {len(snapshot['episode'])} envs and this run has {n}: new episodes began"
    if snapshot["actions"].shape[1:] != action_space.shape or snapshot["actions"].dtype != action_space.dtype:
        return "the checkpoint's actions are not those of this env: new episodes began"
    return ""


def next_episode(snapshot: Snapshot) -> int:
    """An episode index that no env of the snapshot has reached, so that no seed is used twice."""
    return int(snapshot["episode"].max(initial=-1)) + 1
