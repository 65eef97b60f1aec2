"""What a loop asks of whatever runs its updates."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from gymlab.core.types import Array
from gymlab.training.agent import Agent
from gymlab.training.metric_vector import Row
from gymlab.training.named_tensors import Tensors
from gymlab.training.state import TrainState

CALL_SECONDS = 0.1  # a compiled call ends about this often, for the console and for signals


class Advanced(NamedTuple):
    """What some updates gave."""

    state: Any  # a TrainState, or what stands for one until it is `opened`
    rows: list[Row]  # one per executed update; fewer than asked for when the training return was reached


class Program(Protocol):
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
