"""The engine for compiled envs: time limit and autoreset around the pure functions of a `JaxEnv`."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gymlab.core.arrays import where_rows
from gymlab.core.jax_keys import run_key
from gymlab.core.types import Array, Masked, Spaces, Tree, VecStep
from gymlab.envs.ports.port import JaxEnv

# Far above any counter a reset draws numbers at, so the two streams of a step never meet.
_STEP_STREAM = 2**32 - 1


class EngineState(NamedTuple):
    """The whole state of the envs: restored from a checkpoint, they continue exactly."""

    env: Tree  # (N, ...)
    elapsed: Array  # (N,) int32 steps of the running episode
    parameters: Tree = ()  # {name: (N,)} fields of the env that may differ between envs and change without recompiling


class JaxEngine:
    """Pure: the state is passed in and returned, and all methods but the constructor may be traced."""

    name = "jax"

    def __init__(
        self,
        env: JaxEnv,
        n_envs: int,
        *,
        use_action_mask: bool = True,
        autoreset: bool = True,
        parameters: tuple[str, ...] = (),
    ) -> None:
        """Without `autoreset` an env steps on from where its episode ended; what it then gives means nothing.

        `parameters` are fields of the env, a dataclass, that become arrays in the state.
        """
        self._autoreset = autoreset
        self.env = env
        self._parameters = {name: getattr(env, name) for name in parameters}
        self.n_envs = n_envs
        masked = use_action_mask and jax.eval_shape(self._first_mask) is not None
        self.spaces = Spaces(env.observation_space, env.action_space, masked, env.max_episode_steps)

    def init(self, key: Array) -> tuple[EngineState, VecStep]:
        parameters = {name: jnp.full(self.n_envs, value, jnp.float32) for name, value in self._parameters.items()}
        env = self._env_with(parameters)
        state = env.reset(key, self.n_envs)
        obs = self._observe(env, state)
        zeros = jnp.zeros(self.n_envs, jnp.float32)
        no = jnp.zeros(self.n_envs, bool)
        step = VecStep(obs, obs, zeros, zeros, {}, terminated=no, truncated=no, fresh=~no)
        return EngineState(state, jnp.zeros(self.n_envs, jnp.int32), parameters or ()), step

    def step(self, state: EngineState, action: Array, key: Array) -> tuple[EngineState, VecStep]:
        # Envs without chance ignore the step's key, and XLA then drops its derivation: cheaper than a split.
        env = self._env_with(state.parameters)
        after, reward, terminated = env.step(state.env, action, jax.random.fold_in(key, _STEP_STREAM))
        reward = reward.astype(jnp.float32)
        elapsed = state.elapsed + 1
        truncated = (elapsed >= self.spaces.max_episode_steps) & ~terminated
        ended = terminated | truncated
        successor = self._observe(env, after)
        current, obs = after, successor
        if self._autoreset:
            first = env.reset(key, self.n_envs)  # of every row: which ones end is not known when this is compiled
            # `obs` is chosen from, not observed anew: XLA then rounds it as it rounds `successor`.
            current, obs = jax.tree.map(
                lambda new, old: where_rows(ended, new, old), (first, self._observe(env, first)), (after, successor)
            )
        step = VecStep(
            obs=obs,
            successor=successor,
            reward=reward,
            train_reward=reward,
            components={},
            terminated=terminated,
            truncated=truncated,
            fresh=ended,
        )
        return state._replace(env=current, elapsed=jnp.where(ended, 0, elapsed)), step

    def _env_with(self, parameters: Tree) -> JaxEnv:
        env: Any = self.env
        return dataclasses.replace(env, **parameters) if parameters else env

    def _observe(self, env: JaxEnv, state: Tree) -> Tree:
        obs = env.observe(state)
        if not self.spaces.masked:
            return obs
        mask = env.action_mask(state)
        assert mask is not None, "masked says that there is one"
        return Masked(obs, mask)

    def _first_mask(self) -> Array | None:
        return self.env.action_mask(self.env.reset(run_key(0), self.n_envs))
