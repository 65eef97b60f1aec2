"""The host collector: any Gymnasium env, stepped from Python around one compiled call per step."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from gymlab.core.arrays import reset_carry
from gymlab.core.errors import RunError
from gymlab.core.types import Array, Decision, Rollout, Tree, VecStep
from gymlab.envs.engines.base import HostEngine
from gymlab.envs.transform import Transform, transformed
from gymlab.networks.distributions import to_env_action
from gymlab.training import episodes
from gymlab.training.invariants import ending_fault
from gymlab.training.state import Act, GroupState, apply_transforms, step_keys, transform_action

OnStep = Callable[[np.ndarray, VecStep], None]  # called after every vec step with the policy's actions and the step


class HostCollector:
    """Steps a host engine into buffers that are allocated once: a rollout is valid until the next `collect`."""

    def __init__(
        self,
        engine: HostEngine,
        transforms: tuple[Transform, ...],
        act: Act,
        initial_carry: Tree,
        n_steps: int,
        on_step: OnStep | None = None,
    ) -> None:
        self.engine = engine
        self.transforms = transforms
        self.n_steps = n_steps
        self.initial_carry = initial_carry
        self._on_step = on_step
        self._random = any(transform.random for transform in transforms)
        self._action_space = transformed(engine.spaces, transforms).action
        self._keys = jax.jit(partial(step_keys, n_steps=n_steps))
        self._reset_carry = jax.jit(lambda carry, fresh: reset_carry(carry, fresh, initial_carry))

        @jax.jit
        def act_step(policy: Tree, obs: Tree, carry: Tree, fresh: Array, keys: Array, t: Array) -> Decision:
            return act(policy, obs, reset_carry(carry, fresh, initial_carry), keys[t, 0], False)

        self._act = act_step
        self._steps = [np.int32(t) for t in range(n_steps)]
        self._buffers: Rollout | None = None

    def again(self, engine: HostEngine) -> HostCollector:
        """A collector for other envs of this kind that shares the compiled code."""
        other = copy(self)
        other.engine = engine
        other._buffers = None
        return other

    def begin(self, key: Array | None = None) -> GroupState:
        """Reset every env; `key` is for transforms that are random at the first observation."""
        n = self.engine.n_envs
        states = tuple(transform.init(n) for transform in self.transforms)
        return self._begin(states, self.engine.reset(), episodes.start(n), key)

    def rejoin(self, group: GroupState, first: VecStep) -> GroupState:
        """Start new episodes where the old ones could not be restored; the window of finished ones is kept."""
        blank = episodes.start(self.engine.n_envs)
        kept = group.episodes._replace(running_return=blank.running_return, running_length=blank.running_length)
        # Transforms keep their running statistics, and drop what belongs to the old episodes.
        all_fresh = first._replace(fresh=np.ones_like(first.fresh))
        return self._begin(group.transforms, all_fresh, kept, None)._replace(fresh=first.fresh.copy())

    def _begin(
        self, states: tuple[Tree, ...], first: VecStep, tracked: episodes.Episodes, key: Array | None
    ) -> GroupState:
        n = self.engine.n_envs
        if self._random and key is None:
            key = jax.random.key(0)
        states, step = apply_transforms(self.transforms, states, first, key)
        return GroupState(
            env=(),
            transforms=states,
            obs=_copy(step.obs),
            fresh=step.fresh.copy(),
            carry=self.initial_carry,
            episodes=tracked,
            discounted=jnp.zeros(n, jnp.float32),
        )

    def collect(self, policy: Tree, group: GroupState, key: Array) -> tuple[GroupState, Rollout]:
        keys = self._keys(key)
        first_carry = self._reset_carry(group.carry, group.fresh)
        states = group.transforms
        obs = group.obs
        fresh = group.fresh
        carry = group.carry
        for t in range(self.n_steps):
            decision = self._act(policy, obs, carry, fresh, keys, self._steps[t])
            action = np.asarray(decision.action)
            _check_finite(action, t)
            sent = to_env_action(self._action_space, action)
            if self.transforms:
                own = keys[t, 1] if self._random else None
                states, sent = transform_action(self.transforms, states, sent, own)
                states, vec = apply_transforms(self.transforms, states, self.engine.step(sent), own)
            else:
                vec = self.engine.step(sent)
            if self._buffers is None:
                self._buffers = self._allocate(obs, decision, vec)
            self._write(t, obs, action, decision, vec)
            if self._on_step is not None:
                self._on_step(action, vec)
            # The engine reuses its arrays for the next step, so the observation is copied.
            obs = _copy(vec.obs)
            fresh = vec.fresh.copy()
            carry = decision.carry
        assert self._buffers is not None
        assert not (fault := ending_fault(self._buffers)), fault
        rollout = self._buffers._replace(last_obs=obs, carry=first_carry)
        return group._replace(transforms=states, obs=obs, fresh=fresh, carry=carry), rollout

    def _write(self, t: int, obs: Tree, action: np.ndarray, decision: Decision, vec: VecStep) -> None:
        to = self._buffers
        assert to is not None
        to.action[t] = action
        to.log_prob[t] = decision.log_prob
        to.reward[t] = vec.reward
        to.train_reward[t] = vec.train_reward
        to.terminated[t] = vec.terminated
        to.truncated[t] = vec.truncated
        to.fresh[t] = vec.fresh
        _fill(to.obs, t, obs)
        _fill(to.successor, t, vec.successor)
        if vec.components:
            _fill(to.components, t, vec.components)
        if decision.extras:
            _fill(to.extras, t, decision.extras)

    def _allocate(self, obs: Tree, decision: Decision, vec: VecStep) -> Rollout:
        def empty(tree: Tree) -> Tree:
            return jax.tree.map(lambda x: np.empty((self.n_steps, *np.shape(x)), np.asarray(x).dtype), tree)

        return Rollout(
            obs=empty(obs),
            action=empty(decision.action),
            log_prob=empty(decision.log_prob),
            reward=empty(vec.reward),
            train_reward=empty(vec.train_reward),
            components=empty(vec.components),
            terminated=empty(vec.terminated),
            truncated=empty(vec.truncated),
            fresh=empty(vec.fresh),
            successor=empty(vec.successor),
            last_obs=(),
            carry=(),
            extras=empty(decision.extras),
        )


def _check_finite(action: np.ndarray, t: int) -> None:
    """Refuse a non-finite action before the env gets it: the error is the policy's, not the env's."""
    if action.dtype.kind == "f" and not np.isfinite(action).all():
        row = int(np.argwhere(~np.isfinite(action))[0][0])
        raise RunError(f"the policy gave env {row} the action {action[row].tolist()} at step {t + 1} of the rollout")


def _copy(tree: Tree) -> Tree:
    return tree.copy() if isinstance(tree, np.ndarray) else jax.tree.map(np.copy, tree)


def _fill(buffers: Tree, t: int, values: Tree) -> None:
    if isinstance(buffers, np.ndarray):
        buffers[t] = values
    else:
        jax.tree.map(lambda buffer, value: buffer.__setitem__(t, value), buffers, values)
