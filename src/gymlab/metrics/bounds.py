"""Bounds of metrics: fixed, or inferred from spaces, settings and the known rewards of an env.

A value outside its bounds is a bug in the env or in the lab.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from gymlab.core.types import Json, JsonObject, Space
from gymlab.metrics.catalogue import declared, split_task
from gymlab.metrics.metric import POSITIVE, SHARE, UNBOUNDED, Limits, Metric

_SLACK = 1e-4  # of the larger bound: metrics are float32 means
_OBSERVED = 0.01  # of the width: envs that declare round bounds and overstep them a little do no harm


class Context(NamedTuple):
    """What bounds are inferred from. Fields that are None or missing leave bounds infinite."""

    action: Space | None = None
    observation: Space | None = None  # as the policy sees it
    return_range: Limits | None = None
    max_episode_steps: int | None = None
    settings: JsonObject = MappingProxyType({})  # flat keys such as `n_envs` and `ppo.epochs`, as written
    earlier: Mapping[str, Limits] = MappingProxyType({})  # by metric, of the run's sessions before this one


def bounds(name: str, context: Context | None = None) -> Limits:
    """The lowest and the highest value a metric can have; infinite if unlimited or unknown.

    A resumed run has rows, and episodes in its window, from before its settings were changed: its bounds hold both.
    """
    low, high = _inferred(name, context or Context())
    before = context.earlier.get(name, (low, high)) if context is not None else (low, high)
    return min(low, before[0]), max(high, before[1])


def _inferred(name: str, context: Context) -> Limits:
    metric = declared(name)
    if metric is None:
        return UNBOUNDED
    if not isinstance(metric.bounds, str):
        return metric.bounds
    tail = split_task(name)[0].removeprefix(metric.name[:-1]) if metric.is_family else ""
    return RULES[metric.bounds].infer(context, tail)


def inside(value: float, limits: Limits, name: str = "") -> bool:
    """Whether a value of the metric `name` is within its bounds, up to rounding; observations have more room. NaN is.

    Flappy Bird's 1.002 in a Box(-1, 1) is an inaccuracy of its author's, not a fault.
    """
    if math.isnan(value):
        return True
    low, high = limits
    size = max((abs(limit) for limit in limits if math.isfinite(limit)), default=1.0)
    slack = _SLACK * size + 1e-6
    if name.startswith("env/obs_"):
        slack = max(slack, _OBSERVED * (high - low if math.isfinite(high - low) else size))
    return low - slack <= value <= high + slack


def bounds_text(metric: Metric) -> str:
    """A metric's bounds as text."""
    if isinstance(metric.bounds, str):
        return RULES[metric.bounds].words
    low, high = metric.bounds
    if math.isinf(low) and math.isinf(high):
        return "unbounded"
    if math.isinf(high):
        return f"at least {low:g}"
    return f"at most {high:g}" if math.isinf(low) else f"{low:g} to {high:g}"


def _entropy(context: Context, _: str) -> Limits:
    counts = _choices(context.action)
    return UNBOUNDED if counts is None else (0.0, float(np.log(counts).sum()))


def _max_prob(context: Context, _: str) -> Limits:
    counts = _choices(context.action)
    return SHARE if counts is None else (float((1.0 / counts).prod()), 1.0)


def _return(context: Context, _: str) -> Limits:
    return context.return_range or UNBOUNDED


def _length(context: Context, _: str) -> Limits:
    return 1.0, float(context.max_episode_steps or math.inf)


def _action(context: Context, tail: str) -> Limits:
    return _space_limits(context.action, tail)


def _action_bins(context: Context, tail: str) -> Limits:
    low, high = _space_limits(context.action, tail)
    half = 0.0 if _choices(context.action) is None else 0.5
    return low - half, high + half


def _observation(context: Context, tail: str) -> Limits:
    return _space_limits(context.observation, tail)


def _std_bounds(rule: Callable[[Context, str], Limits]) -> Callable[[Context, str], Limits]:
    """The std of values within bounds is at most half their distance (half of them at either end)."""

    def infer(context: Context, tail: str) -> Limits:
        low, high = rule(context, tail)
        return 0.0, (high - low) / 2

    return infer


def _rollout(context: Context, _: str) -> Limits:
    size = _rollout_size(context)
    return POSITIVE if size is None else (0.0, float(size))


def _gradient_steps(context: Context, _: str) -> Limits:
    size = _rollout_size(context)
    epochs = _number(context, "epochs")
    batch = _number(context, "batch_size")
    if size is None or epochs is None or batch is None:
        return POSITIVE
    return 0.0, float(int(epochs) * (size // max(1, round(batch * size) if batch < 1 else int(batch))))


def _clipped_gradient(context: Context, _: str) -> Limits:
    low_high = _schedule(context, "max_grad_norm")
    return POSITIVE if low_high is None else (0.0, low_high[1])


def _hyperparameter(context: Context, tail: str) -> Limits:
    return _schedule(context, tail) or UNBOUNDED


class BoundRule(NamedTuple):
    """A named rule that infers bounds."""

    infer: Callable[[Context, str], Limits]  # of the context and what a family's `*` stands for
    words: str


RULES: dict[str, BoundRule] = {
    "entropy": BoundRule(
        _entropy, "0 to ln n for n discrete actions (the sum over components); unbounded for continuous ones"
    ),
    "max_prob": BoundRule(_max_prob, "1/n to 1 for n discrete actions (the product over components)"),
    "return": BoundRule(_return, "the env's lowest to its highest return, where known"),
    "return_spread": BoundRule(_std_bounds(_return), "0 to half the range of returns, where known"),
    "length": BoundRule(_length, "1 to the time limit"),
    "length_spread": BoundRule(_std_bounds(_length), "0 to half the time limit"),
    "action": BoundRule(_action, "the action space's lowest to its highest value"),
    "action_bins": BoundRule(_action_bins, "the action space's lowest to its highest value, half a choice beyond"),
    "action_spread": BoundRule(_std_bounds(_action), "0 to half the width of the action space"),
    "observation": BoundRule(_observation, "the observation space's lowest to its highest value"),
    "observation_spread": BoundRule(_std_bounds(_observation), "0 to half the width of the observation space"),
    "rollout": BoundRule(_rollout, "0 to n_envs × n_steps"),
    "gradient_steps": BoundRule(
        _gradient_steps, "0 to epochs × minibatches; 0 or 1 where there is one step per update"
    ),
    "clipped_gradient": BoundRule(_clipped_gradient, "0 to max_grad_norm"),
    "schedule": BoundRule(_hyperparameter, "the lowest to the highest value of its schedule"),
}


class Rewards(NamedTuple):
    """The range of the reward of one step, and of an extra reward once per episode."""

    low: float
    high: float
    once_low: float = 0.0
    once_high: float = 0.0


_PENDULUM_COST = math.pi**2 + 0.1 * 8.0**2 + 0.001 * 2.0**2
REWARDS = {
    "Acrobot-v1": Rewards(-1, 0),
    "Blackjack-v1": Rewards(0, 0, -1, 1),
    "CartPole-v1": Rewards(1, 1),
    "CliffWalking-v1": Rewards(-100, -1),
    "FrozenLake-v1": Rewards(0, 0, 0, 1),
    "FrozenLake8x8-v1": Rewards(0, 0, 0, 1),
    "MountainCar-v0": Rewards(-1, -1),
    "MountainCarContinuous-v0": Rewards(-0.1, 0, 0, 100),
    "Pendulum-v1": Rewards(-_PENDULUM_COST, 0),
    "Taxi-v4": Rewards(-10, -1, 0, 21),  # the last step gives 20 in place of -1
}


def return_range(env_id: str, max_episode_steps: int, kwargs: Mapping[str, object] | None = None) -> Limits | None:
    """The lowest and the highest possible return of an episode; None if unknown, or if kwargs change the env."""
    rewards = REWARDS.get(env_id)
    if rewards is None or kwargs:
        return None
    # An episode lasts from one step to the time limit: whichever of the two is worse, or better.
    low = rewards.low * (max_episode_steps if rewards.low < 0 else 1) + rewards.once_low
    high = rewards.high * (max_episode_steps if rewards.high > 0 else 1) + rewards.once_high
    return low, high


def _choices(space: Space | None) -> np.ndarray | None:
    """How many choices each component of a discrete space has; None for continuous ones."""
    if space is None:
        return None
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return np.array([space.n], np.float64)
    if isinstance(space, spaces.MultiDiscrete):
        return np.asarray(space.nvec, np.float64).ravel()
    if isinstance(space, spaces.MultiBinary):
        return np.full(int(np.prod(space.shape)), 2.0)
    return None


def _space_limits(space: Space | None, tail: str) -> Limits:
    """The lowest and highest value in a space, of one component where `tail` names one (`3`, `key.0`)."""
    if space is None:
        return UNBOUNDED
    from gymnasium import spaces

    head, _, rest = tail.partition(".")
    if isinstance(space, spaces.Dict | spaces.Tuple):
        inner = dict(space.spaces) if isinstance(space, spaces.Dict) else dict(enumerate(space.spaces))
        named = {str(key): part for key, part in inner.items()}
        parts = [_space_limits(named[head], rest)] if head in named else [_space_limits(p, "") for p in named.values()]
        return min(low for low, _ in parts), max(high for _, high in parts)
    if isinstance(space, spaces.Box):
        low = np.ravel(space.low)
        high = np.ravel(space.high)
        at = [int(head)] if head.isdecimal() and int(head) < low.size else slice(None)
        return float(low[at].min()), float(high[at].max())
    if isinstance(space, spaces.Discrete):
        return float(space.start), float(space.start + space.n - 1)
    counts = _choices(space)
    if counts is None:
        return UNBOUNDED
    return 0.0, float(counts[int(head)] if head.isdecimal() and int(head) < counts.size else counts.max()) - 1.0


def _rollout_size(context: Context) -> int | None:
    n_envs, n_steps = (context.settings.get(key) for key in ("n_envs", "n_steps"))
    return n_envs * n_steps if isinstance(n_envs, int) and isinstance(n_steps, int) else None


def _number(context: Context, leaf: str) -> float | None:
    value = _setting(context, leaf)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _schedule(context: Context, leaf: str) -> Limits | None:
    written = _setting(context, leaf)
    if written is None:
        return None
    from gymlab.core.schedules import parse_schedule

    try:
        values = parse_schedule(written).values
    except (ValueError, TypeError):
        return None
    return min(values), max(values)


def _setting(context: Context, leaf: str) -> Json:
    """A setting of the algorithm's block, whatever the algorithm is called."""
    found = [value for key, value in context.settings.items() if key.rpartition(".")[2] == leaf]
    return found[0] if len(found) == 1 else None
