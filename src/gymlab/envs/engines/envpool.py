"""The engine over EnvPool (extra `envpool`): every env is stepped in native threads.

EnvPool's seeds are fixed when its envs are made, so a snapshot holds how often each env was reset since. Repeating the
resets and actions rebuilds an env exactly where only its resets are random.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import warnings
from types import ModuleType
from typing import Any

import numpy as np
from gymnasium import spaces

from gymlab.core.errors import RunError, UserError
from gymlab.core.types import Array, Spaces, VecStep
from gymlab.envs.engines.base import NativeEngine
from gymlab.envs.make import make_bare, split_wrappers, time_limit
from gymlab.envs.registry import resolve_id
from gymlab.envs.replay_log import Progress, Snapshot
from gymlab.envs.settings import EnvSettings

EXTRA = "engine: envpool needs an extra package: pip install 'gymlab[envpool]'"
_NO_LIMIT = 2**31 - 1  # EnvPool says "truncated" where an env reached its goal at the last step: the limit is ours
_REPORT_EVERY = 256
_MUJOCO = (
    "Ant",
    "HalfCheetah",
    "Hopper",
    "Humanoid",
    "HumanoidStandup",
    "InvertedDoublePendulum",
    "InvertedPendulum",
    "Pusher",
    "Reacher",
    "Swimmer",
    "Walker2d",
)
CHANCE_AT_RESETS = frozenset(
    {
        "CartPole-v0",
        "CartPole-v1",
        "Pendulum-v1",
        "MountainCar-v0",
        "MountainCarContinuous-v0",
        "Acrobot-v1",
        "BipedalWalker-v3",
        "BipedalWalkerHardcore-v3",
        "CliffWalking-v1",
        *(f"{name}-v5" for name in _MUJOCO),
    }
)
"""Envs whose steps are deterministic: these can be rebuilt exactly."""


def unsupported_reason(settings: EnvSettings) -> str:
    """Why EnvPool does not support this env; "" where it does. UserError where the package is missing."""
    resolved = resolve_id(settings.id)
    if importlib.util.find_spec("envpool") is None:
        raise UserError(EXTRA)
    if resolved.id not in _package().list_all_envs():
        return f"EnvPool has no {resolved.id}"
    env_side, _ = split_wrappers(settings)
    if env_side:
        return f"wrappers: '{env_side[0].name}' wraps the Gymnasium env"
    kwargs = {**resolved.kwargs, **settings.kwargs}
    if kwargs:
        return f"env.kwargs: '{next(iter(kwargs))}' is for the Gymnasium env"
    return "env.on_error: restart needs envs of Gymnasium" if settings.on_error == "restart" else ""


class EnvPoolEngine(NativeEngine):
    """A HostEngine. Observations and actions are those of the Gymnasium env, which evaluation uses."""

    name = "envpool"

    def __init__(
        self,
        settings: EnvSettings,
        n_envs: int,
        run_seed: int,
        *,
        evaluation: bool = False,
        imports: tuple[str, ...] = (),
        threads: int = 0,
    ) -> None:
        super().__init__(n_envs, imports, run_seed, evaluation)
        problem = unsupported_reason(settings)
        if problem:
            raise UserError(f"engine: envpool cannot run this recipe ({problem}): use engine: auto")
        self._id = resolve_id(settings.id).id
        self._threads = threads
        self.restorable = self._id in CHANCE_AT_RESETS
        env = make_bare(settings).env
        env.close()
        self._allocate(Spaces(env.observation_space, env.action_space, False, time_limit(settings)))
        self._open(0)
        _check_alike(self._id, self._pool, self.spaces)
        numbers = (self._buffer.step.reward, self._buffer.step.successor)
        self._finite = [array.reshape(-1) for array in numbers if array.dtype.kind == "f"]
        self._everyone = np.arange(n_envs, dtype=np.int32)

    def reset(self, episode: int | None = None) -> VecStep:
        """Start every env's next episode, or one that is seeded by the given index."""
        if episode is not None:
            self._open(episode)
            self.history.episode[:] = episode - 1
        self._begin(self._everyone)
        self._buffer.arrays.fresh.fill(True)
        return self._buffer.without_transition()

    def step(self, action: Array, active: np.ndarray | None = None) -> VecStep:
        """One step of all envs, or of the `active` ones: the others keep their observation and are paid nothing."""
        actions = np.array(action, self.history.dtype)
        self.history.append(actions)
        step = self._buffer.step
        rows = self._everyone
        if active is not None:
            self._buffer.without_transition()
            rows = rows[np.asarray(active, bool)]
        if len(rows):  # EnvPool would wait for ever for the answers of none
            # In the order of `rows`: answers are only out of order where some are not waited for.
            self._play(actions[rows], rows)
            self._check(actions)
        self.history.elapsed[rows] += 1
        np.copyto(step.obs, step.successor)
        _, terminated, truncated, fresh = self._buffer.arrays
        np.logical_and(self.history.elapsed >= self.spaces.max_episode_steps, ~terminated, out=truncated)
        np.logical_or(terminated, truncated, out=fresh)
        if fresh.any():
            self._begin(self._everyone[fresh])
        return step

    def _play(self, actions: Array, rows: np.ndarray) -> None:
        step = self._buffer.step
        step.successor[rows], step.reward[rows], step.terminated[rows] = self._pool.step(actions, rows)[:3]
        self._buffer.digest.add(rows)

    def snapshot(self) -> Snapshot:
        return super().snapshot() | {"origin": np.array([self._origin])}

    def _incompatibility(self, snapshot: Snapshot) -> str:
        if "origin" not in snapshot:
            return "the checkpoint's envs were those of another engine: new episodes began"
        return super()._incompatibility(snapshot) if self.restorable else self.caveat

    @property
    def caveat(self) -> str:
        """What a resumed run will log; "" where it continues exactly."""
        if self.restorable:
            return ""
        return f"EnvPool cannot put {self._id} back where it stood: new episodes began"

    def close(self) -> None:
        self._pool.close()

    def _open(self, origin: int) -> None:
        """Make all envs anew, seeded by the index of the episode they begin with."""
        seeds = [self._seed(i, origin) for i in range(self.n_envs)]
        self._origin = origin
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of the rounding of its own spaces' bounds
            self._pool = _package().make_gymnasium(
                self._id, num_envs=self.n_envs, seed=seeds, num_threads=self._threads, max_episode_steps=_NO_LIMIT
            )
            _ = self._pool.observation_space, self._pool.action_space

    def _begin(self, rows: np.ndarray) -> None:
        """Start the next episode of some envs; EnvPool leaves that to us unless an ended one is stepped."""
        self.history.episode[rows] += 1
        self.history.elapsed[rows] = 0
        self._reset(rows)

    def _reset(self, rows: np.ndarray) -> None:
        self._buffer.step.obs[rows] = self._pool.reset(rows)[0]
        for row in rows.tolist():
            self._buffer.digest.begin(row)

    def _replay(self, snapshot: Snapshot, progress: Progress | None) -> None:
        """Reset every env as often as it had been, and repeat its actions since."""
        self._open(int(snapshot["origin"][0]))
        resets = snapshot["episode"] - self._origin + 1
        elapsed = snapshot["elapsed"]
        total = int(resets.sum() + elapsed.sum())
        done = 0
        starts = np.cumsum(elapsed) - elapsed
        operations = [(0, k) for k in range(int(resets.max()))] + [(1, t) for t in range(int(elapsed.max()))]
        for index, (is_step, k) in enumerate(operations):
            rows = self._everyone[(elapsed if is_step else resets) > k]
            if is_step:
                self._play(snapshot["actions"][starts[rows] + k], rows)
            else:
                self._reset(rows)
            done += len(rows)
            if progress is not None and index % _REPORT_EVERY == 0:
                progress(done, total)
        stepped = elapsed > 0
        self._buffer.step.obs[stepped] = self._buffer.step.successor[stepped]
        self.history.episode[:] = snapshot["episode"]

    def _check(self, actions: Array) -> None:
        """RunError for NaN or infinity."""
        if all(math.isfinite(flat.dot(flat)) or np.isfinite(flat).all() for flat in self._finite):
            return
        step = self._buffer.step
        seen = np.isfinite(step.successor.reshape(self.n_envs, -1)).all(axis=1) & np.isfinite(step.reward)
        row = int(np.flatnonzero(~seen)[0])
        raise RunError(
            f"env {row} ({self._id}) failed in episode {self.history.episode[row]} at step "
            f"{self.history.elapsed[row] + 1} with action {actions[row].tolist()}: NaN or infinity in its observation "
            f"{step.successor[row].tolist()} or reward {step.reward[row]}"
        )


def _package() -> ModuleType:
    return importlib.import_module("envpool")


def _check_alike(name: str, pool: Any, expected: Spaces) -> None:
    """UserError unless EnvPool's env has the spaces of Gymnasium's."""
    pairs = ((pool.observation_space, expected.observation), (pool.action_space, expected.action))
    for theirs, ours in pairs:
        both = spaces.Discrete if isinstance(ours, spaces.Discrete) else spaces.Box
        equal = isinstance(theirs, both) and isinstance(ours, both) and theirs.shape == ours.shape
        if not equal or getattr(theirs, "n", None) != getattr(ours, "n", None):
            raise UserError(
                f"engine: envpool cannot run this recipe ({name} is another env there: {theirs} instead of {ours}): "
                "use engine: auto"
            )
