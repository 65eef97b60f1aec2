"""Building host engines and playing them with random actions, for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from gymlab.core.types import VecStep
from gymlab.envs.engines.base import HostEngine
from gymlab.envs.engines.gymnasium import GymnasiumEngine
from gymlab.envs.engines.processes import ProcessEngine
from gymlab.envs.settings import EnvSettings
from gymlab.envs.step_buffer import leaves

Make = Callable[..., HostEngine]
BOTH = pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])


def engine_maker(kind: str) -> Iterator[Make]:
    """Builds engines of a kind (sync, processes, envpool) and closes them in the end: the body of a fixture."""
    made: list[HostEngine] = []
    if kind == "envpool":
        pytest.importorskip("envpool", reason="pip install 'gymlab[envpool]'")

    def build(env: str, n: int = 3, seed: int = 5, *, evaluation: bool = False, **settings: Any) -> HostEngine:
        wanted = EnvSettings(id=env, **settings)
        if kind == "sync":
            made.append(GymnasiumEngine(wanted, n, seed, evaluation=evaluation))
        elif kind == "envpool":
            from gymlab.envs.engines.envpool import EnvPoolEngine

            made.append(EnvPoolEngine(wanted, n, seed, evaluation=evaluation))
        else:
            made.append(ProcessEngine(wanted, n, seed, evaluation=evaluation, workers=2, timeout=20))
        return made[-1]

    yield build
    for engine in made:
        engine.close()


@contextmanager
def sync(env: str, n: int = 3, seed: int = 5, **settings: Any) -> Iterator[GymnasiumEngine]:
    with GymnasiumEngine(EnvSettings(id=env, **settings), n, seed) as engine:
        yield engine


def actions(engine: HostEngine, steps: int, seed: int = 0) -> list[np.ndarray]:
    space = engine.spaces.action
    space.seed(seed)
    return [np.stack([np.asarray(space.sample()) for _ in range(engine.n_envs)]) for _ in range(steps)]


def dump(step: VecStep) -> list[bytes]:
    """A step's bytes, which outlive the engine's buffers."""
    arrays = [*leaves(step.obs), *leaves(step.successor), step.reward, step.terminated, step.truncated, step.fresh]
    return [array.tobytes() for array in arrays]


def play(engine: HostEngine, moves: list[np.ndarray]) -> list[list[bytes]]:
    return [dump(engine.step(move)) for move in moves]


def vec_step(xp, obs, successor=None, *, reward=None, terminated=0, truncated=0, fresh=0, dtype=np.float32) -> VecStep:
    """A step of NumPy or JAX arrays; flags are one for all envs or one for each. `components` has one part, `a`."""
    obs = xp.asarray(obs, dtype=dtype)
    successor = obs if successor is None else xp.asarray(successor, dtype=dtype)
    reward = xp.zeros(len(obs), np.float32) if reward is None else xp.asarray(reward, dtype=np.float32)
    flags = (xp.broadcast_to(xp.asarray(flag, dtype=bool), (len(obs),)) for flag in (terminated, truncated, fresh))
    return VecStep(obs, successor, reward, reward, {"a": reward}, *flags)
