"""The compiled collector: the env is JAX, and a rollout is one scan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import jax
import jax.numpy as jnp
from jax import lax

from gymlab.core.arrays import reset_carry
from gymlab.core.types import Array, Rollout, Tree
from gymlab.envs.engines.jax import JaxEngine
from gymlab.envs.transform import Transform, transformed
from gymlab.networks.distributions import to_env_action
from gymlab.training import episodes
from gymlab.training.state import Act, GroupState, apply_transforms, step_keys, transform_action


@dataclass(frozen=True)
class CompiledCollector:
    """Pure functions of (policy, group state, key)."""

    engine: JaxEngine
    transforms: tuple[Transform, ...]
    act: Act
    initial_carry: Tree
    n_steps: int

    def begin(self, key: Array) -> GroupState:
        env, step = self.engine.init(key)
        states = tuple(t.init(self.engine.n_envs) for t in self.transforms)
        states, step = apply_transforms(self.transforms, states, step, key)
        n = self.engine.n_envs
        return GroupState(
            env, states, step.obs, step.fresh, self.initial_carry, episodes.start(n), jnp.zeros(n, jnp.float32)
        )

    def collect(self, policy: Tree, group: GroupState, key: Array) -> tuple[GroupState, Rollout]:
        first_carry = reset_carry(group.carry, cast("Array", group.fresh), self.initial_carry)
        space = transformed(self.engine.spaces, self.transforms).action

        def step(now: tuple[Tree, ...], keys: jax.Array) -> tuple[tuple[Tree, ...], tuple[Tree, ...]]:
            env, states, obs, fresh, carry = now
            carry = reset_carry(carry, fresh, self.initial_carry)
            decision = self.act(policy, obs, carry, keys[0], False)
            states, action = transform_action(self.transforms, states, to_env_action(space, decision.action), keys[1])
            env, vec = self.engine.step(env, action, keys[1])
            states, vec = apply_transforms(self.transforms, states, vec, keys[1])
            return (env, states, vec.obs, vec.fresh, decision.carry), (
                obs,
                decision._replace(carry=()),
                vec._replace(obs=()),
            )

        now: tuple[Tree, ...] = (group.env, group.transforms, group.obs, group.fresh, group.carry)
        now, (obs, decision, vec) = lax.scan(step, now, step_keys(key, self.n_steps))
        env, states, last_obs, fresh, carry = now
        rollout = Rollout(
            obs=obs,
            action=decision.action,
            log_prob=decision.log_prob,
            reward=vec.reward,
            train_reward=vec.train_reward,
            components=vec.components,
            terminated=vec.terminated,
            truncated=vec.truncated,
            fresh=vec.fresh,
            successor=vec.successor,
            last_obs=last_obs,
            carry=first_carry,
            extras=decision.extras,
        )
        group = group._replace(env=env, transforms=states, obs=last_obs, fresh=fresh, carry=carry)
        return group, rollout
