"""Any env that Gymnasium gives as a transition table: FrozenLake, Taxi, CliffWalking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from gymlab.core.types import Array
from gymlab.envs.settings import EnvKwargs


@dataclass(frozen=True, eq=False)
class Tabular:
    """Tables over states S, actions A and the K outcomes of the pair with the most; the others are padded."""

    observation_space: spaces.Discrete
    action_space: spaces.Discrete
    starts: np.ndarray  # the states an episode starts in, all equally likely
    probability: np.ndarray  # (S, A, K) float64, 0 where padded
    successor: np.ndarray  # (S, A, K) int32
    reward: np.ndarray  # (S, A, K) float32
    terminal: np.ndarray  # (S, A, K) bool
    mask: np.ndarray | None  # (S, A) bool
    max_episode_steps: int

    @property
    def thresholds(self) -> np.ndarray:
        """(S, A, K - 1): outcome k is drawn when a uniform number in [0, 1) lies at or above k of them."""
        reached = np.cumsum(self.probability, axis=-1)
        last = np.cumsum(self.probability[..., ::-1], axis=-1)[..., ::-1] - self.probability <= 0
        return np.where(last, 1.0, reached)[..., :-1].astype(np.float32)

    def reset(self, key: Array, n: int) -> Array:
        if len(self.starts) == 1:
            return jnp.full(n, self.starts[0], jnp.int32)
        index = (jax.random.uniform(key, (n,)) * len(self.starts)).astype(jnp.int32)
        return jnp.asarray(self.starts)[index]

    def step(self, state: Array, action: Array, key: Array) -> tuple[Array, Array, Array]:
        n_states, n_actions, n_outcomes = self.probability.shape
        row = state * n_actions + action
        if n_outcomes > 1:
            thresholds = jnp.asarray(self.thresholds.reshape(n_states * n_actions, n_outcomes - 1))
            drawn = jnp.sum(thresholds[row] <= jax.random.uniform(key, (*row.shape, 1)), axis=-1, dtype=jnp.int32)
            row = row * n_outcomes + drawn
        successor, reward, terminal = (jnp.asarray(t.ravel()) for t in (self.successor, self.reward, self.terminal))
        return successor[row], reward[row], terminal[row]

    def observe(self, state: Array) -> Array:
        return state

    def action_mask(self, state: Array) -> Array | None:
        return None if self.mask is None else jnp.asarray(self.mask)[state]


def from_gymnasium(env_id: str, kwargs: EnvKwargs, max_episode_steps: int) -> Tabular | str:
    """The port of a registered env with a table `P`, or why its table is not complete."""
    import gymnasium

    if kwargs.get("fickle_passenger"):
        return f"{env_id} with fickle_passenger=True does not follow its transition table"
    if "map_name" in kwargs and kwargs["map_name"] is None and kwargs.get("desc") is None:
        return f"{env_id} with map_name=None draws a new map for every env"
    try:
        env = gymnasium.make(env_id, disable_env_checker=True, **kwargs)
    except Exception as error:  # any error of the env: the host engine reports it to the user
        return f"{env_id} cannot be made with these kwargs: {type(error).__name__}: {error}"
    return _read_tables(env.unwrapped, max_episode_steps)


def _read_tables(env: Any, max_episode_steps: int) -> Tabular:
    n_states = int(env.observation_space.n)
    n_actions = int(env.action_space.n)
    n_outcomes = max(len(env.P[s][a]) for s in range(n_states) for a in range(n_actions))
    shape = (n_states, n_actions, n_outcomes)
    probability = np.zeros(shape)
    successor = np.zeros(shape, np.int32)
    reward = np.zeros(shape, np.float32)
    terminal = np.zeros(shape, bool)
    for s in range(n_states):
        for a in range(n_actions):
            for k, outcome in enumerate(env.P[s][a]):
                probability[s, a, k], successor[s, a, k], reward[s, a, k], terminal[s, a, k] = outcome
    starts = np.flatnonzero(env.initial_state_distrib).astype(np.int32)
    assert np.ptp(env.initial_state_distrib[starts]) == 0, "episodes start uniformly over some states"
    has_mask = hasattr(env, "action_mask")
    return Tabular(
        observation_space=spaces.Discrete(n_states),
        action_space=spaces.Discrete(n_actions),
        starts=starts,
        probability=probability,
        successor=successor,
        reward=reward,
        terminal=terminal,
        mask=np.array([env.action_mask(s) for s in range(n_states)], bool) if has_mask else None,
        max_episode_steps=max_episode_steps,
    )
