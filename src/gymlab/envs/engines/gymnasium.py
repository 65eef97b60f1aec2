"""The engine for any Gymnasium env: stepped in this process, one after the other."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from gymlab.core.types import Array, Spaces, VecStep
from gymlab.envs.engines.sync_vector import Factory, SyncVector
from gymlab.envs.env_faults import Restarts
from gymlab.envs.make import import_all
from gymlab.envs.replay_log import Progress, Restored, Snapshot, check_fields
from gymlab.envs.settings import EnvSettings


class HostEngine(Protocol):
    """N envs stepped together, in NumPy. A VecStep's arrays are overwritten by the next call: copy what you keep."""

    name: str
    n_envs: int
    spaces: Spaces
    restorable: bool

    @property
    def restarts(self) -> int:
        """Faults of envs and env processes that the run went on from, since its first step."""
        ...

    def reset(self, episode: int | None = None) -> VecStep: ...
    def step(self, action: Array, active: Array | None = None) -> VecStep: ...
    def snapshot(self) -> Snapshot: ...
    def restore(self, snapshot: Snapshot, progress: Progress | None = None) -> Restored: ...
    def close(self) -> None: ...


class GymnasiumEngine:
    """A HostEngine over one `SyncVector`. `factory(env index)` makes envs that are not made from the settings."""

    name = "gymnasium"

    def __init__(
        self,
        settings: EnvSettings,
        n_envs: int,
        run_seed: int,
        *,
        evaluation: bool = False,
        imports: tuple[str, ...] = (),
        factory: Factory | None = None,
    ) -> None:
        import_all(imports)
        self._restarts = Restarts()
        on_fault = self._restarts.add if settings.on_error == "restart" else None
        self._slots = SyncVector(settings, range(n_envs), run_seed, evaluation, factory, on_fault)
        self.n_envs = n_envs
        self.spaces = self._slots.spaces
        self.restorable = self._slots.restorable
        self.envs = self._slots.envs

    @property
    def restarts(self) -> int:
        """Faults of envs that the run went on from, since its first step."""
        return self._restarts.count

    def reset(self, episode: int | None = None) -> VecStep:
        """Start every env's next episode, or the one with the given index."""
        return self._slots.reset(episode)

    def step(self, action: Array, active: np.ndarray | None = None) -> VecStep:
        """One step of all envs, or of the `active` ones: the others keep their observation and are paid nothing."""
        self._restarts.env_steps += self.n_envs
        return self._slots.step(action, active)

    def snapshot(self) -> Snapshot:
        return self._slots.snapshot() | {"restarts": np.array([self._restarts.count])}

    def restore(self, snapshot: Snapshot, progress: Progress | None = None) -> Restored:
        check_fields(snapshot)
        self._restarts.count = int(snapshot["restarts"][0])
        return self._slots.restore(snapshot, progress)

    def close(self) -> None:
        self._slots.close()

    def __enter__(self) -> GymnasiumEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
