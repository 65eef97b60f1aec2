"""The exact expected return of a greedy policy, where the env is a transition table: no sampling noise."""

from __future__ import annotations

import numpy as np

from gymlab.core.types import Array
from gymlab.envs.ports.tabular import Tabular


def exact_return(table: Tabular, action: Array) -> float:
    """Mean over the start states of the undiscounted return within the time limit; `action` is (S,), one per state."""
    states = np.arange(len(action))
    probability = table.probability[states, action]  # (S, K)
    reward = table.reward[states, action].astype(np.float64)
    successor = table.successor[states, action]
    goes_on = ~table.terminal[states, action]
    value = np.zeros(len(action))
    for _ in range(table.max_episode_steps):
        value = np.sum(probability * (reward + goes_on * value[successor]), axis=-1)
    return float(value[table.starts].mean())
