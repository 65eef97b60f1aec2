"""The trainer protocol: what the loop asks of whatever runs its updates, and the metrics that come back."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np

from gymlab.core.types import Array, Histogram
from gymlab.training.agent import Agent
from gymlab.training.named_tensors import Tensors
from gymlab.training.state import TrainState

if TYPE_CHECKING:
    from gymlab.training.agent import Agent


class UpdateMetrics(dict[str, float]):
    """The metrics of one update by name; what was not measured is not in it."""

    histograms: Mapping[str, Histogram] = MappingProxyType({})


def pack_metrics(metrics: dict[str, Array], more: Array | None) -> Array:
    """A row as one array: the metrics in their order, then more.

    Numbers that stand side by side in an array should do so among the metrics: XLA then takes them out of it at once.
    """
    numbers = jnp.stack([number.astype(jnp.float32) for number in metrics.values()])
    return numbers if more is None else jnp.concatenate([numbers, more])


def unpack_rows(agent: Agent, names: list[str], values: np.ndarray, looks: np.ndarray) -> list[UpdateMetrics]:
    """Packed rows of numbers by name, with the distributions of those updates that were looked at."""
    rows = [UpdateMetrics(zip(names, row, strict=True)) for row in values[:, : len(names)].tolist()]
    for i in np.flatnonzero(looks[: len(rows)]) if values.shape[1] > len(names) else ():
        taken, rows[i].histograms = agent.layout.unpack(values[i, len(names) :])
        rows[i] |= taken
    return rows


CALL_SECONDS = 0.1  # a compiled call ends about this often, for the console and for signals


class Advanced(NamedTuple):
    """What some updates gave."""

    state: Any  # a TrainState, or what stands for one until it is `opened`
    rows: list[UpdateMetrics]  # one per executed update; fewer than asked for when the training return was reached


class Trainer(Protocol):
    """Runs updates. `most` bounds how many one call can do, and it should end in about `call_seconds`."""

    most: int
    call_seconds: float
    agent: Agent

    @property
    def called(self) -> float | None:
        """The seconds of the last call itself, where others had to be waited for."""
        ...

    def opened(self, state: Any) -> TrainState:
        """The state that was given by `advance`."""
        ...

    def start(self, seed: int, *, ahead: bool = False) -> TrainState:
        """The first state; `ahead` of a run: what else can be compiled by now, in the background."""
        ...

    def advance(self, state: Any, first: int, hp: Array, stop_return: float) -> Advanced:
        """Run len(hp) updates from update number `first` (from 0); `hp` is (k, n) scheduled values.

        Raises NumericalFault, with the sound updates before it, where numbers go bad.
        """
        ...

    def save(self, state: TrainState) -> Tensors:
        """The state as tensors, with the envs' own in it."""
        ...

    def load(self, state: TrainState, tensors: Tensors) -> tuple[TrainState, list[str]]:
        """The saved state in the shape of `state` (a started one), and why it is not exactly what it was, if so."""
        ...

    def close(self) -> None: ...
