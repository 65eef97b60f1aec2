"""Episode digest: one number per env over all observations, rewards and endings since the reset.

It is fed in the process that steps the env, and again when an episode is replayed: a replay that went another way has
another number, also where it came back to the same observation. Of large observations an even sample of bytes counts.

An episode's steps x_0, x_1, ... (each hashed to 64 bits, the first one the observation of the reset) give the
polynomial x_0 F^n + x_1 F^(n-1) + ... + x_n modulo 2^64. So steps may be kept as they are and hashed many at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MOST_WORDS = 512  # of one observation
MOST_STEPS = 256  # that are kept before they are hashed
SMALL_BLOCK = 16_384  # bytes of a step that are kept rather than hashed at once
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, so that no bit is lost
_REWARD = np.uint64(0xC2B2AE3D27D4EB4F)
_MASK = 2**64 - 1
_END = np.uint64(0x165667B19E3779F9)
_POWERS = np.cumprod(np.r_[np.uint64(1), np.full(MOST_STEPS, _FACTOR)], dtype=np.uint64)


class EpisodeDigest:
    """The digests of an engine's envs, fed from the arrays that it overwrites in every step.

    Where `keeps` is set, steps are kept and hashed later, which costs a tenth; `values` are then those of `current`.
    """

    def __init__(
        self,
        values: np.ndarray,
        block: np.ndarray,
        obs: Sequence[np.ndarray],
        successor: Sequence[np.ndarray],
        reward: np.ndarray,
        ended: np.ndarray,
    ) -> None:
        """`obs` at a reset and `successor` in a step are what is observed; all are views of `block`."""
        self.keeps = False
        self._values = values
        self._block = block
        self._reset = [_Words(block, leaf) for leaf in obs]
        self._step = [_Words(block, leaf) for leaf in successor]
        self._reward = _Words(block, reward, _REWARD)
        self._ended = _Words(block, ended, _END)
        self._kept: list[bytes] = []
        self._from = np.zeros(len(values), np.int64)  # the first kept step of each env's episode
        self._small = block.nbytes <= SMALL_BLOCK

    def begin(self, row: int) -> None:
        """An env's episode begins with its current observation."""
        self._values[row] = sum(part.hashed_row(self._block, row) for part in self._reset) & _MASK
        self._from[row] = len(self._kept)

    def add_all(self) -> None:
        """One more step of all envs."""
        if not self.keeps or not self._small:
            self.add(slice(None))
            return
        self._kept.append(self._block.tobytes())
        if len(self._kept) == MOST_STEPS:
            self._hash_kept()

    def add(self, rows: slice | np.ndarray) -> None:
        """One more step of some envs."""
        self._hash_kept()
        step = _total([*self._step, self._reward, self._ended], self._block[None])[0]
        self._values[rows] = self._values[rows] * _FACTOR + step[rows]

    def current(self) -> np.ndarray:
        """The digest of every env's open episode."""
        self._hash_kept()
        return self._values.copy()

    def _hash_kept(self) -> None:
        count = len(self._kept)
        if count == 0:
            return
        blocks = np.frombuffer(b"".join(self._kept), np.uint8).reshape(count, -1)
        steps = _total([*self._step, self._reward, self._ended], blocks)
        steps *= np.arange(count)[:, None] >= self._from
        self._values *= _POWERS[count - self._from]
        self._values += (steps * _POWERS[count - 1 :: -1, None]).sum(axis=0)
        self._kept.clear()
        self._from[:] = 0


class _Words:
    """One array of a step's block as unsigned integers, one row per env, with a weight for each column."""

    def __init__(self, block: np.ndarray, leaf: np.ndarray, weight: np.uint64 | None = None) -> None:
        self._envs = len(leaf)
        self._width = leaf.nbytes // self._envs  # bytes of one env
        self._begin = leaf.__array_interface__["data"][0] - block.__array_interface__["data"][0]
        self._end = self._begin + leaf.nbytes
        size = next(size for size in (8, 4, 2, 1) if self._width % size == 0)
        self._dtype = np.dtype(f"u{size}")
        self._stride = -(-self._width // size // MOST_WORDS)
        columns = len(range(0, self._width // size, self._stride))
        weights = 2 * np.random.default_rng(0).integers(2**63, size=columns, dtype=np.uint64) + np.uint64(1)
        self._weights = weights if weight is None else np.full(columns, weight)

    def hashed_row(self, block: np.ndarray, row: int) -> int:
        """The hash of one env."""
        begin = self._begin + row * self._width
        words = block[begin : begin + self._width].view(self._dtype)[:: self._stride]
        return int(words @ self._weights)

    def hashed(self, blocks: np.ndarray) -> np.ndarray:
        """(steps, envs) hashes of (steps, bytes) blocks."""
        part = np.ascontiguousarray(blocks[:, self._begin : self._end]).view(self._dtype)
        words = part.reshape(len(blocks), self._envs, -1)[:, :, :: self._stride]
        hashed: np.ndarray = words @ self._weights
        return hashed


def _total(parts: Sequence[_Words], blocks: np.ndarray) -> np.ndarray:
    hashed = parts[0].hashed(blocks)
    for part in parts[1:]:
        hashed = hashed + part.hashed(blocks)
    return hashed
