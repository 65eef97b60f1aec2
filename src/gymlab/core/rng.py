"""Random streams in NumPy, each derived from (run seed, stream name, indices) and never carried as state.

No JAX here, so that env worker processes can import it; `core.jax_keys` does the same for JAX.
"""

from __future__ import annotations

import zlib

import numpy as np

_EVALUATION_BIT = 1 << 30


def stream_id(name: str) -> int:
    """A stable number for the name of a stream."""
    return zlib.crc32(name.encode())


def episode_seed(run_seed: int, env_index: int, episode: int, *, evaluation: bool = False) -> int:
    """The seed of one episode of one env: 31 bits, with training and evaluation in disjoint halves."""
    stream = stream_id("evaluation episodes" if evaluation else "training episodes")
    word = int(np.random.SeedSequence([run_seed, stream, env_index, episode]).generate_state(1)[0])
    word &= _EVALUATION_BIT - 1
    return word | _EVALUATION_BIT if evaluation else word


def generator(run_seed: int, name: str, *indices: int) -> np.random.Generator:
    """A NumPy generator for a named stream."""
    return np.random.default_rng(np.random.SeedSequence([run_seed, stream_id(name), *indices]))
