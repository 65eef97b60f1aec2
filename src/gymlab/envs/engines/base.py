"""HostEngine: N environments stepped together in NumPy. The base class of the engines beside this file.

`NativeEngine` is the base of those whose envs are stepped by the native threads of a library.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

import numpy as np

from gymlab.core.rng import episode_seed
from gymlab.core.types import Array, Spaces, VecStep
from gymlab.envs.env_faults import Restarts
from gymlab.envs.make import import_all
from gymlab.envs.replay_log import ActionLog, Progress, Restored, Snapshot, check_fields, incompatibility, next_episode
from gymlab.envs.step_buffer import StepBuffer


class HostEngine(ABC):
    """A VecStep's arrays are overwritten by the next call: copy what you keep."""

    name: str
    n_envs: int
    spaces: Spaces
    restorable: bool

    def __init__(self, n_envs: int, imports: tuple[str, ...]) -> None:
        import_all(imports)
        self.n_envs = n_envs
        self._restarts = Restarts()

    @property
    def restarts(self) -> int:
        """Faults of envs and env processes after which they were restarted, since the run's first step."""
        return self._restarts.count

    @abstractmethod
    def reset(self, episode: int | None = None) -> VecStep:
        """Start every env's next episode, or the one with the given index."""

    @abstractmethod
    def step(self, action: Array, active: np.ndarray | None = None) -> VecStep:
        """One step of all envs, or of the `active` ones: the others keep their observation and are paid nothing."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """What `restore` needs: one row per env, and the actions since the resets, env after env."""

    @abstractmethod
    def restore(self, snapshot: Snapshot, progress: Progress | None = None) -> Restored:
        """Rebuild every env from its episode's seed and its actions; where that fails, begin new episodes."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class NativeEngine(HostEngine):
    """Nothing of a user's runs inside, so a fault ends the run and there are no restarts to count."""

    def __init__(self, n_envs: int, imports: tuple[str, ...], run_seed: int, evaluation: bool) -> None:
        super().__init__(n_envs, imports)
        self._run_seed = run_seed
        self._evaluation = evaluation

    def _allocate(self, spaces: Spaces) -> None:
        self.spaces = spaces
        self._buffer = StepBuffer(spaces, self.n_envs)
        self.history = ActionLog(self._buffer, spaces.action, spaces.max_episode_steps)

    def _seed(self, env: int, episode: int) -> int:
        return episode_seed(self._run_seed, env, episode, evaluation=self._evaluation)

    def snapshot(self) -> Snapshot:
        return self.history.snapshot(slice(None), restorable=self.restorable) | {"restarts": np.array([0])}

    def restore(self, snapshot: Snapshot, progress: Progress | None = None) -> Restored:
        check_fields(snapshot)
        problem = self._incompatibility(snapshot)
        if not problem:
            self._replay(snapshot, progress)
            self.history.load(snapshot, np.ones(self.n_envs, bool))
            self._buffer.step.fresh[:] = snapshot["elapsed"] == 0
            if np.array_equal(self._buffer.digest.current(), snapshot["digest"]):
                return Restored(self._buffer.without_transition(), True, "")
            longest = int(snapshot["elapsed"].max())
            problem = f"the replay of {longest} steps gave other observations, rewards or endings than the run had"
            problem += ": new episodes began"
        return Restored(self.reset(next_episode(snapshot)), False, problem)

    def _incompatibility(self, snapshot: Snapshot) -> str:
        """Why a snapshot cannot be replayed; "" where it can."""
        return incompatibility(snapshot, self.n_envs, self.spaces.action, restorable=True)

    @abstractmethod
    def _replay(self, snapshot: Snapshot, progress: Progress | None) -> None:
        """Take every env to its snapshot's episode and repeat its actions; the last observations go into the buffer."""
