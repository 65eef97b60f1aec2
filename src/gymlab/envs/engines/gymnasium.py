"""The engine for any Gymnasium env: stepped in this process, one after the other."""

from __future__ import annotations

import numpy as np

from gymlab.core.types import Array, VecStep
from gymlab.envs.engines.base import HostEngine
from gymlab.envs.engines.sync_vector import Factory, SyncVector
from gymlab.envs.replay_log import Progress, Restored, Snapshot, check_fields
from gymlab.envs.settings import EnvSettings


class GymnasiumEngine(HostEngine):
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
        super().__init__(n_envs, imports)
        on_fault = self._restarts.add if settings.on_error == "restart" else None
        self._vector = SyncVector(settings, range(n_envs), run_seed, evaluation, factory, on_fault)
        self._vector.buffers.digest.keeps = True
        self.spaces = self._vector.spaces
        self.restorable = self._vector.restorable
        self.envs = self._vector.envs

    def reset(self, episode: int | None = None) -> VecStep:
        return self._vector.reset(episode)

    def step(self, action: Array, active: Array | None = None) -> VecStep:
        self._restarts.env_steps += self.n_envs
        return self._vector.step(action, active)

    def snapshot(self) -> Snapshot:
        return self._vector.snapshot() | {"restarts": np.array([self._restarts.count])}

    def restore(self, snapshot: Snapshot, progress: Progress | None = None) -> Restored:
        check_fields(snapshot)
        self._restarts.count = int(snapshot["restarts"][0])
        return self._vector.restore(snapshot, progress)

    def close(self) -> None:
        self._vector.close()
