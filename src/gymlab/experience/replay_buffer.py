"""Replay buffer: a ring of the last steps of an env group, from which sequences of consecutive steps are drawn.

Its arrays are time first, so a rollout is written in one slice. The compiled update gets it as a donated argument:
it is changed in place, never copied. It is part of the training state, so each checkpoint holds all of it: good for
small buffers; large ones need files of their own that several checkpoints share (issue 27).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gymlab.core.types import Array, Rollout, Spaces, Tree
from gymlab.experience.space_arrays import zero_action, zero_obs


class ReplayBuffer(NamedTuple):
    steps: Rollout  # (C, N, ...) raw; components, carry and last_obs are not kept
    head: Array  # () the row that the next step is written to
    size: Array  # () how many rows before `head` hold steps


def empty_buffer(spaces: Spaces, extras: Tree, n_envs: int, capacity: int) -> ReplayBuffer:
    """A buffer of `capacity` steps per env; `extras` has the shapes of a decision's, (N, ...)."""
    lead = (capacity, n_envs)

    def empty(dtype: type) -> Array:
        return jnp.zeros(lead, dtype)  # an array for each field: none can be donated twice

    steps = Rollout(
        obs=zero_obs(spaces, lead),
        action=zero_action(spaces.action, lead),
        log_prob=empty(jnp.float32),
        reward=empty(jnp.float32),
        train_reward=empty(jnp.float32),
        components={},
        terminated=empty(bool),
        truncated=empty(bool),
        fresh=empty(bool),
        successor=zero_obs(spaces, lead),
        last_obs=(),
        carry=(),
        extras=jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape), x.dtype), extras),
    )
    return ReplayBuffer(steps, jnp.int32(0), jnp.int32(0))


def append_rollout(buffer: ReplayBuffer, rollout: Rollout, sound: Array | bool = True) -> ReplayBuffer:
    """The buffer with a rollout, whose length divides the capacity, in place of the oldest steps.

    Where the rollout is not `sound` it does not count: what it overwrote is gone, and the rest is as before.
    """
    capacity = len(buffer.steps.reward)
    length = len(rollout.reward)
    assert capacity % length == 0, f"rollouts of {length} steps do not fill a buffer of {capacity}"
    new = rollout._replace(components={}, last_obs=(), carry=())

    def write(ring: Array, values: Array) -> Array:
        return lax.dynamic_update_slice_in_dim(ring, values.astype(ring.dtype), buffer.head, 0)

    steps = jax.tree.map(write, buffer.steps, new)
    head = jnp.where(sound, (buffer.head + length) % capacity, buffer.head)
    left = jnp.minimum(buffer.size, capacity - length)
    return ReplayBuffer(steps, head, left + jnp.where(sound, length, 0))


def drop_newest(buffer: ReplayBuffer, length: int, where: Array) -> ReplayBuffer:
    """The buffer without its newest rollout; what that overwrote stays lost."""
    capacity = len(buffer.steps.reward)
    head = jnp.where(where, (buffer.head - length) % capacity, buffer.head)
    return buffer._replace(head=head, size=buffer.size - jnp.where(where, length, 0))


def sample_sequences(buffer: ReplayBuffer, key: Array, count: int, sequences: int, length: int) -> Rollout:
    """`count` minibatches, each (length, sequences) consecutive steps of one env, drawn uniformly with replacement.

    None crosses the write head. `last_obs` is the last successor: the next episode's first obs is not kept.
    """
    capacity, n_envs = buffer.steps.reward.shape
    k_start, k_env = jax.random.split(key)
    starts = jnp.maximum(buffer.size - length + 1, 1)
    start = jax.random.randint(k_start, (count, 1, sequences), 0, starts)
    env = jax.random.randint(k_env, (count, 1, sequences), 0, n_envs)
    row = (buffer.head - buffer.size + start + jnp.arange(length)[:, None]) % capacity
    drawn = jax.tree.map(lambda x: x[row, env], buffer.steps)
    return drawn._replace(last_obs=jax.tree.map(lambda x: x[:, -1], drawn.successor))
