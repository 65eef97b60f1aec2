"""What an episode's rewards were worth at every step, by the code that training uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from gymlab.core.types import Array, Tree
from gymlab.experience import returns


class Judgement(NamedTuple):
    """How an algorithm judges a return."""

    gamma: float
    lam: float
    baseline: str = "value"  # "none": nothing is subtracted; anything else: not known from the policy alone
    learnt: Callable[[Tree, Array], Array] = lambda _, reward: reward  # (policy, rewards) -> rewards as learning sees


def judge(
    rewards: np.ndarray, values: np.ndarray, end_value: float, terminated: np.ndarray, judged: Judgement
) -> tuple[np.ndarray, ...]:
    """Discounted returns, GAE and TD errors of one whole episode, by the code that training uses."""
    n = len(rewards)  # few lengths, few compilations
    padded = 1 << max(6, (len(rewards) - 1).bit_length())

    def column(x: np.ndarray) -> np.ndarray:
        return np.pad(x, (0, padded - n))[:, None]

    following = np.append(values[1:], np.float32(end_value))
    died = column(terminated)
    stopped = column((np.arange(n) == n - 1) & ~terminated)
    known = np.nan_to_num(following)  # without a value function a cut episode ends with 0
    given = map(column, (rewards, known, values, following))
    return tuple(np.asarray(x)[:n, 0] for x in _compiled(*given, died, stopped, judged.gamma, judged.lam))


@jax.jit
def _compiled(
    rewards: Array, known: Array, values: Array, following: Array, died: Array, stopped: Array, *rates: Array
) -> tuple[Array, Array, Array]:
    gamma, lam = rates
    to_go = returns.monte_carlo(rewards, known, died, stopped, gamma=gamma)
    gae, td = (returns.gae(rewards, values, following, died, stopped, gamma=gamma, lam=by) for by in (lam, 0.0))
    return to_go, gae, td
