"""The engine for evaluating envs with a NumPy port: vectorised over all envs, equal to Gymnasium bit for bit."""

from __future__ import annotations

import logging

import numpy as np
from gymnasium.utils import seeding

from gymlab.core.types import Array, Spaces, VecStep
from gymlab.envs.env_faults import EpisodeSeeds
from gymlab.envs.make import BareEnv, make_bare, split_wrappers
from gymlab.envs.ports.port import NumpyEnv
from gymlab.envs.ports.registry import find_numpy_port
from gymlab.envs.registry import resolve_id
from gymlab.envs.settings import EnvSettings
from gymlab.envs.step_buffer import StepBuffer

log = logging.getLogger(__name__)

_COMPARED_STEPS = 32


class NumpyEngine:
    """Plays the evaluation episodes that a `GymnasiumEngine` of the same settings and seed would play."""

    def __init__(self, env: NumpyEnv, settings: EnvSettings, spaces: Spaces, n_envs: int, run_seed: int) -> None:
        self._env = env
        self.spaces = spaces
        self.n_envs = n_envs
        self._seeds = EpisodeSeeds(settings.id, run_seed, evaluation=True)
        self._buffers = StepBuffer(spaces, n_envs)
        self._buffers.episode.fill(-1)
        self._elapsed = np.zeros(n_envs, np.int64)
        self._state: Array = self._begin(range(n_envs))

    def reset(self) -> VecStep:
        step = self._buffers.step
        step.obs[:] = self._env.observe(self._state)
        step.fresh.fill(True)
        return self._buffers.without_transition()

    def step(self, action: Array, active: Array) -> VecStep:
        """One step of the `active` envs: the others keep their observation and are paid nothing."""
        step = self._buffers.step
        stepped, reward, terminated = self._env.step(self._state, action)
        state: Array = np.where(active, stepped, self._state)
        self._elapsed += active
        np.multiply(reward, active, out=step.reward, casting="same_kind")
        np.logical_and(terminated, active, out=step.terminated)
        np.greater(self._elapsed >= self.spaces.max_episode_steps, step.terminated, out=step.truncated)
        np.logical_or(step.terminated, step.truncated, out=step.fresh)
        step.successor[:] = self._env.observe(state)
        ended = np.flatnonzero(step.fresh).tolist()
        if ended:
            state[:, ended] = self._begin(ended)
            self._elapsed[ended] = 0
        step.obs[:] = self._env.observe(state)
        self._state = state
        return step

    def close(self) -> None:
        """Holds no resources."""

    def _begin(self, rows: range | list[int]) -> Array:
        """The first states of these envs' next episodes."""
        self._buffers.episode[rows] += 1
        seeds = [self._seeds.seed(row, int(self._buffers.episode[row])) for row in rows]
        return np.stack([self._env.initial_state(seeding.np_random(seed)[0]) for seed in seeds], axis=-1)


def find_numpy_twin(settings: EnvSettings) -> tuple[NumpyEnv, Spaces] | None:
    """The NumPy port of an env and its spaces; None where it has none, or where the two differ on this machine."""
    resolved = resolve_id(settings.id)
    twin = find_numpy_port(resolved.id, {**resolved.kwargs, **settings.kwargs})
    if twin is None or split_wrappers(settings)[0]:
        return None
    bare = make_bare(settings)
    try:
        if not agree(twin, bare):
            log.warning("%s: its NumPy twin differs from it here, so evaluation steps the envs themselves", settings.id)
            return None
        return twin, Spaces(bare.env.observation_space, bare.env.action_space, False, bare.limit)
    finally:
        bare.env.close()


def agree(twin: NumpyEnv, bare: BareEnv) -> bool:
    """Whether both give the same states bit for bit: how a library rounds a sine may depend on the machine."""
    random = np.random.default_rng(0)
    seeds = random.integers(2**31, size=8)  # as many states at once as the widest registers hold
    states = np.stack([twin.initial_state(seeding.np_random(int(seed))[0]) for seed in seeds], axis=-1)
    actions = random.integers(bare.env.action_space.n, size=(_COMPARED_STEPS, len(seeds)))  # type: ignore[attr-defined]
    states_over_time = [states]
    for action in actions:
        states_over_time.append(twin.step(states_over_time[-1], action)[0])
    for row, seed in enumerate(seeds):
        bare.env.reset(seed=int(seed))
        for t, action in enumerate(actions[:, row]):
            if not np.array_equal(twin.state_of(bare.env), states_over_time[t][:, row]):
                return False
            if bare.env.step(action)[2]:
                break
    return True
