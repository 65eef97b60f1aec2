"""The trainer protocol: runs updates for the loop; and the metrics of each update that it returns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, cast

import jax.numpy as jnp
import numpy as np

from gymlab.algorithms.base import Hyper
from gymlab.core.clock import Clock
from gymlab.core.types import Array, Histogram
from gymlab.training.agent import Agent
from gymlab.training.named_tensors import Tensors
from gymlab.training.state import TrainState

CALL_SECONDS = 0.1  # target length of a compiled call: the console and signals wait for its end


class UpdateMetrics(dict[str, float]):
    """The metrics of one update by name; those that were not measured are missing."""

    histograms: Mapping[str, Histogram] = MappingProxyType({})

    @property
    def gradient_steps(self) -> int:
        """Gradient steps that count: none in a skipped update, whose metrics are NaN."""
        steps = self.get("opt/gradient_steps", 0.0)
        return 0 if math.isnan(steps) else int(steps)


class LearningClock(NamedTuple):
    """The clocks that an update gets as hyperparameters: integers, before the update."""

    update: Array  # from 0
    env_steps: Array
    gradient_steps: Array


LARGEST_CLOCK = np.iinfo(np.int32).max  # integer hyperparameters stay here from then on


def learning_clock(clock: Clock) -> LearningClock:
    counts = (clock.updates, clock.env_steps, clock.gradient_steps)
    return LearningClock(*(cast("Array", np.int32(min(count, LARGEST_CLOCK))) for count in counts))


def hyperparameters(names: list[str], values: Array, clock: LearningClock) -> Hyper:
    """What `Algorithm.update` gets as `hp`, from a row of `RunPlan.scheduled` and the clocks before the update."""
    scheduled = {name: values[i] for i, name in enumerate(names)}
    return {**scheduled, "progress": values[len(names)], **clock._asdict()}


def pack_metrics(metrics: dict[str, Array], more: Array | None) -> Array:
    """A row as one array: the metrics in their order, then `more`.

    Metrics sliced from one array should be adjacent in the dict: XLA then copies them in one slice.
    """
    numbers = jnp.stack([number.astype(jnp.float32) for number in metrics.values()])
    return numbers if more is None else jnp.concatenate([numbers, more])


def unpack_rows(agent: Agent, names: list[str], values: np.ndarray, measured: np.ndarray) -> list[UpdateMetrics]:
    """Unpack rows of numbers by name, with the histograms of the updates whose flag in `measured` is set."""
    rows = [UpdateMetrics(zip(names, row, strict=True)) for row in values[:, : len(names)].tolist()]
    for i in np.flatnonzero(measured[: len(rows)]) if values.shape[1] > len(names) else ():
        values_by_name, rows[i].histograms = agent.layout.unpack(values[i, len(names) :])
        rows[i] |= values_by_name
    return rows


class Advanced(NamedTuple):
    """The result of a call: the state after its updates, and their metrics."""

    state: Any  # a TrainState, or a reference to one until `materialize`
    rows: list[UpdateMetrics]  # one per executed update; fewer than requested where the stop return was reached


class Trainer(Protocol):
    """Runs updates, at most `most` per call; a call should last about `call_seconds`."""

    most: int
    call_seconds: float
    agent: Agent

    @property
    def last_call_seconds(self) -> float | None:
        """The duration of the last call alone, where `advance` also waits for other runs; else None."""
        ...

    def materialize(self, state: Any) -> TrainState:
        """The TrainState that a state from `advance` refers to."""
        ...

    def start(self, seed: int, *, ahead: bool = False) -> TrainState:
        """The initial state; with `ahead`, the updates are compiled in the background meanwhile."""
        ...

    def advance(self, state: Any, clock: Clock, hp: Array, stop_return: float) -> Advanced:
        """Run len(hp) updates after `clock`; `hp` are their scheduled values (`RunPlan.scheduled`).

        Raises NumericalFault, which holds the finite updates before it, where an update is not finite.
        """
        ...

    def save(self, state: TrainState) -> Tensors:
        """The state as tensors, including the envs' state."""
        ...

    def load(self, state: TrainState, tensors: Tensors) -> tuple[TrainState, list[str]]:
        """The saved state, in the structure of `state` (from `start`), and the reasons why it is not exact, if any."""
        ...

    def close(self) -> None: ...
