"""How far a metric can go: fixed, or inferred from spaces, settings and what is known of the env.

A value outside its bounds is a bug, in the env or in the lab, never bad luck.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from gymlab.metrics.catalogue import declared
from gymlab.metrics.metric import POSITIVE, SHARE, UNBOUNDED, Limits, Metric

_SLACK = 1e-4  # of the larger bound: metrics are float32 means


class Context(NamedTuple):
    """What bounds are inferred from. Whatever is None or missing leaves them open."""

    action: Any = None  # gymnasium space
    observation: Any = None  # gymnasium space, as the policy sees it
    return_range: Limits | None = None
    max_episode_steps: int | None = None
    settings: Mapping[str, Any] = MappingProxyType({})  # flat keys such as `n_envs` and `ppo.epochs`, as written


def bounds(name: str, context: Context | None = None) -> Limits:
    """The lowest and the highest value a metric can have; infinite where nothing limits it or nothing is known."""
    metric = declared(name)
    if metric is None:
        return UNBOUNDED
    if not isinstance(metric.bounds, str):
        return metric.bounds
    tail = name.removeprefix(metric.name[:-1]) if metric.is_family else ""
    return RULES[metric.bounds].infer(context or Context(), tail)


def inside(value: float, limits: Limits) -> bool:
    """Whether a value keeps its bounds, rounding allowed for. NaN, which is no value, does."""
    if math.isnan(value):
        return True
    low, high = limits
    slack = _SLACK * max((abs(limit) for limit in limits if math.isfinite(limit)), default=1.0) + 1e-6
    return low - slack <= value <= high + slack


def bounds_text(metric: Metric) -> str:
    """A metric's bounds in words."""
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


def _spread_of(rule: Callable[[Context, str], Limits]) -> Callable[[Context, str], Limits]:
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


class Rule(NamedTuple):
    infer: Callable[[Context, str], Limits]  # of the context and what a family's `*` stands for
    words: str


RULES: dict[str, Rule] = {
    "entropy": Rule(
        _entropy, "0 to ln n for n discrete actions (the sum over components); unbounded for continuous ones"
    ),
    "max_prob": Rule(_max_prob, "1/n to 1 for n discrete actions (the product over components)"),
    "return": Rule(_return, "the env's lowest to its highest return, where known"),
    "return_spread": Rule(_spread_of(_return), "0 to half the range of returns, where known"),
    "length": Rule(_length, "1 to the time limit"),
    "length_spread": Rule(_spread_of(_length), "0 to half the time limit"),
    "action": Rule(_action, "the action space's lowest to its highest value"),
    "action_bins": Rule(_action_bins, "the action space's lowest to its highest value, half a choice beyond"),
    "action_spread": Rule(_spread_of(_action), "0 to half the width of the action space"),
    "observation": Rule(_observation, "the observation space's lowest to its highest value"),
    "observation_spread": Rule(_spread_of(_observation), "0 to half the width of the observation space"),
    "rollout": Rule(_rollout, "0 to n_envs × n_steps"),
    "gradient_steps": Rule(_gradient_steps, "0 to epochs × minibatches; 0 or 1 where there is one step per update"),
    "clipped_gradient": Rule(_clipped_gradient, "0 to max_grad_norm"),
    "schedule": Rule(_hyperparameter, "the lowest to the highest value of its schedule"),
}


def _choices(space: Any) -> np.ndarray | None:
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


def _space_limits(space: Any, tail: str) -> Limits:
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
        low, high = np.ravel(space.low), np.ravel(space.high)
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


def _setting(context: Context, leaf: str) -> Any:
    """A setting of the algorithm's block, whatever the algorithm is called."""
    found = [value for key, value in context.settings.items() if key.rpartition(".")[2] == leaf]
    return found[0] if len(found) == 1 else None
