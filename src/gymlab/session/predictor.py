"""Predictor: maps observations, one or a batch, to actions in the env's format."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from gymnasium import spaces as gym

from gymlab.core.arrays import reset_carry
from gymlab.core.errors import UserError
from gymlab.core.jax_keys import run_key, stream_key
from gymlab.core.types import Array, Masked, Space, Spaces, Tree
from gymlab.envs.gymnasium_types import EnvValue
from gymlab.envs.step_buffer import leaf_dtype, leaf_shape, leaves
from gymlab.networks.distributions import to_env_action
from gymlab.training.agent import Agent
from gymlab.training.state import Policy


class CompiledAgent(NamedTuple):
    """An agent with its compiled functions."""

    agent: Agent
    act: Callable[..., tuple[Array, Tree]]  # (policy, obs, carry, key, call, greedy) -> actions, and the memory or ()
    begin: Callable[[Array], tuple[Tree, Tree]]  # key -> the first state of the algorithm and of the normaliser


def compile_agent(agent: Agent, n_envs: int) -> CompiledAgent:
    """The compiled functions of an agent."""

    def act(policy: Policy, obs: Tree, carry: Tree, key: Array, call: Array, greedy: Array) -> tuple[Array, Tree]:
        decision = agent.act(policy, obs, carry, jax.random.fold_in(key, call), greedy)
        return decision.action, decision.carry if agent.algorithm.has_memory else ()

    def _begin(key: Array) -> tuple[Tree, Tree]:  # the name of the function in HostTrainer: they share a cache entry
        return agent.algorithm.init(stream_key(key, "weights"), (n_envs,)), agent.initial_normaliser()

    return CompiledAgent(agent, jax.jit(act), jax.jit(_begin))


class Predictor:
    """Compiled once per batch size. Sampled actions depend on the seed and the number of calls."""

    def __init__(self, compiled: CompiledAgent, spaces: Spaces, seed: int) -> None:
        self._spaces = spaces
        self._compiled = compiled
        self._calls = 0
        self._key = stream_key(run_key(seed), "predict")
        self._carries: dict[int, Tree] = {}

    def __call__(
        self,
        policy: Policy,
        observation: EnvValue,
        *,
        deterministic: bool,
        action_masks: np.ndarray | None = None,
        state: Tree = None,
        episode_start: np.ndarray | None = None,
    ) -> tuple[np.ndarray, Tree]:
        """The action (one, or one per row) that the env takes, and the state to hand in at the next step.

        The state is a policy's memory, begun anew without one and where `episode_start`; one that has none gives back
        what it got.
        """
        obs, single = add_batch_axis(self._spaces.observation, observation)
        n = len(next(leaves(obs)))
        if action_masks is not None:
            obs = Masked(obs, np.asarray(action_masks, bool).reshape(n, -1))
        if n not in self._carries:
            self._carries[n] = self._compiled.agent.algorithm.initial_carry(n)
        carry = self._carries[n]
        if self._compiled.agent.algorithm.has_memory and state is not None:
            fresh = np.zeros(n, bool) if episode_start is None else np.asarray(episode_start, bool).reshape(n)
            carry = reset_carry(state, fresh, carry)
        call = np.uint32(self._calls)
        self._calls = (self._calls + (not deterministic)) % 2**32
        sampled, memory = self._compiled.act(policy, obs, carry, self._key, call, np.bool_(deterministic))
        space = self._spaces.action
        action = np.asarray(to_env_action(space, np.asarray(sampled))).astype(space.dtype)
        after = memory if self._compiled.agent.algorithm.has_memory else state
        return np.asarray(action[0]) if single else action, after


def add_batch_axis(space: Space, obs: EnvValue, name: str = "observation") -> tuple[Tree, bool]:
    """The observation with a leading axis, and whether there was none."""
    if isinstance(space, gym.Dict):
        if not isinstance(obs, dict) or set(obs) != set(space.spaces):
            raise UserError(f"predict: {name} must be a dict with keys {list(space.spaces)}")
        parts = {key: add_batch_axis(part, obs[key], f"{name}['{key}']") for key, part in space.spaces.items()}
        return {key: tree for key, (tree, _) in parts.items()}, _agree(name, [single for _, single in parts.values()])
    if isinstance(space, gym.Tuple):
        if not isinstance(obs, tuple | list) or len(obs) != len(space.spaces):
            raise UserError(f"predict: {name} must be a tuple of {len(space.spaces)}")
        each = [add_batch_axis(part, obs[i], f"{name}[{i}]") for i, part in enumerate(space.spaces)]
        return tuple(tree for tree, _ in each), _agree(name, [single for _, single in each])
    return _leaf(space, obs, name)


def _leaf(space: Space, obs: EnvValue, name: str) -> tuple[np.ndarray, bool]:
    shape = leaf_shape(space)
    if isinstance(obs, tuple) and len(obs) == 2 and isinstance(obs[1], dict):
        raise UserError("predict: got what a Gymnasium reset returns: write `obs, info = env.reset()`")
    try:
        array = np.asarray(obs).astype(leaf_dtype(space))
    except (TypeError, ValueError) as error:
        raise UserError(f"predict: {name} is not an array of {leaf_dtype(space)}: {error}") from error
    if array.shape == shape:
        return array[None], True
    if array.shape[1:] == shape and array.ndim == len(shape) + 1 and len(array):
        return array, False
    raise UserError(f"predict: {name} has shape {array.shape}: expected {shape}, or {('n', *shape)} for a batch")


def _agree(name: str, singles: list[bool]) -> bool:
    if len(set(singles)) > 1:
        raise UserError(f"predict: some parts of {name} are batches and others are not")
    return singles[0]
