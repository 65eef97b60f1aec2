"""Types that several packages exchange: spaces, steps, decisions, rollouts, histograms.

Nothing here imports JAX, Gymnasium or NumPy: env worker processes and the command line import this file too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar, Union

if TYPE_CHECKING:
    import gymnasium
    import jax
    import numpy as np

Value = TypeVar("Value")
# Transforms and statistics are written for both. A Union, because text has no `|` at run time.
Array: TypeAlias = Union["jax.Array", "np.ndarray"]
Tree = Any  # nested dicts, tuples and arrays
# A JSON value. Its containers are read-only, so that a dict[str, float] is one too; build a dict[str, Json].
Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | int | float | bool | None"
JsonObject: TypeAlias = Mapping[str, Json]
Space: TypeAlias = "gymnasium.Space[Any]"  # what its values are is known from its class only


def read_only(values: Mapping[str, Value]) -> Mapping[str, Value]:
    """A copy that raises TypeError when it is written to."""
    return values if isinstance(values, MappingProxyType) else MappingProxyType(dict(values))


class Spaces(NamedTuple):
    """The spaces of an env, as a policy sees them."""

    observation: Space  # after the transforms
    action: Space
    masked: bool  # observations arrive as `Masked`
    max_episode_steps: int
    limit_steps_per_step: int = 1  # how much of that limit a step uses up: more where wrappers skip frames


class Masked(NamedTuple):
    """An observation and which discrete actions are legal in it."""

    obs: Tree
    mask: Array  # (N, n_actions) bool


class VecStep(NamedTuple):
    """One vectorised env step. There is no `done`: terminated and truncated stay apart everywhere."""

    obs: Tree  # (N, *obs) what to act on next: the new episode's first obs where one ended
    successor: Tree  # (N, *obs) the true s', even where an episode ended
    reward: Array  # (N,) the env's own: what every reported return sums
    train_reward: Array  # (N,) what learning sees
    components: dict[str, Array]  # named parts of train_reward, each (N,)
    terminated: Array  # (N,) bool: the MDP ended, never bootstrap past it
    truncated: Array  # (N,) bool: we stopped watching, bootstrap from `successor`; never set with `terminated`
    fresh: Array  # (N,) bool: `obs` starts a new env episode


class Decision(NamedTuple):
    """Actions a policy chose."""

    action: Array  # (N, *act) as sampled: unclipped, and stored so
    log_prob: Array  # (N,) of exactly that action
    carry: Tree  # (N, ...) recurrent memory, exploration noise; () when there is none
    extras: dict[str, Array]  # (N, ...) stored in the rollout untouched


class Rollout(NamedTuple):
    """T steps of N envs, time first. Observations are raw: normalising happens when learning begins."""

    obs: Tree  # (T, N, *obs) what was acted on
    action: Array  # (T, N, *act)
    log_prob: Array  # (T, N)
    reward: Array  # (T, N)
    train_reward: Array  # (T, N)
    components: dict[str, Array]  # each (T, N)
    terminated: Array  # (T, N)
    truncated: Array  # (T, N)
    fresh: Array  # (T, N) the obs after this step starts a new env episode
    successor: Tree  # (T, N, *obs)
    last_obs: Tree  # (N, *obs) what the next rollout starts from
    carry: Tree  # (N, ...) the policy's carry at the first step
    extras: dict[str, Array]  # (T, N, ...)


class PolicyInputs(Protocol):
    """What a policy is run over: a rollout or a part of one; steps in any order where it has no memory."""

    @property
    def obs(self) -> Tree:
        """(T, N, *obs)"""

    @property
    def fresh(self) -> Array:
        """(T, N) the obs after this step starts a new env episode"""

    @property
    def carry(self) -> Tree:
        """(N, ...) the carry at the first step, already reset"""


class Replayed(NamedTuple):
    """A policy run over steps."""

    distribution: Any
    value: Array  # (T, N)
    carries: Tree = ()  # (T, N, ...) after each step, not yet reset where a new episode follows; () without memory


class Histogram(NamedTuple):
    """Equal bins between two edges, and the number of samples in each.

    If all samples are equal, `low` equals `high` and all are in the first bin.
    """

    low: float
    high: float
    counts: tuple[int, ...]

    @property
    def edges(self) -> np.ndarray:
        """(bins + 1,) the edges of the bins."""
        import numpy as np

        return np.linspace(self.low, self.high, len(self.counts) + 1)
