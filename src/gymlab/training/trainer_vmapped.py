"""Many runs of one shape in one vmapped program: seeds, or values of scheduled hyperparameters.

Every member has its own loop, features and run folder, in its own thread, and a `MemberTrainer` as its trainer, whose
`advance` blocks until all members have called it; then one compiled call runs the updates of all, as many as the
smallest request. Loops and features see rows and a state as in a run by itself.

The state keeps its leading member axis between calls: a member gets a `StateRef` to its row, which is copied to the
host only on `materialize`. The row of a member that has ended is still computed, and ignored. Rounding differs from a
run by itself: results agree to about 1e-6 at first and then drift apart, so equality is statistical in the end.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gymlab.core.clock import Clock
from gymlab.core.errors import UserError
from gymlab.core.types import Array, Tree
from gymlab.training.named_tensors import Tensors
from gymlab.training.state import TrainState
from gymlab.training.trainer import Advanced, LearningClock, learning_clock, unpack_rows
from gymlab.training.trainer_compiled import CompiledTrainer
from gymlab.training.update_histograms import HistogramSchedule


class _StackedState:
    """The state of all members after a call, with a lazy copy on the host."""

    def __init__(self, state: TrainState) -> None:
        self.state = state
        self._copy: TrainState | None = None

    def row(self, index: int) -> TrainState:
        """One member's state, on the host: members ask at the same time, so one transfer serves all."""
        if self._copy is None:
            self._copy = jax.device_get(jax.tree.map(_plain, self.state))
        return jax.tree.map(lambda rows, like: _like(rows[index], like), self._copy, self.state)


class StateRef(NamedTuple):
    """A reference to one member's row of the group's state."""

    stacked: _StackedState
    row: int

    def materialize(self) -> TrainState:
        return self.stacked.row(self.row)


class _Request(NamedTuple):
    """One member's arguments of `advance`, and the updates to measure."""

    state: TrainState | StateRef
    clock: Clock
    hp: Array
    stop_return: float
    measured: np.ndarray


class VmappedRuns:
    """Runs the updates of all members in one vmapped call, once every member has requested some."""

    def __init__(self, members: int, lock: threading.Lock) -> None:
        """`lock` is the members' cooperative lock (`core.cooperative_lock`): they hold it whenever they call."""
        self.members = members
        self._run = jax.jit(self._updates)
        self._trainer: CompiledTrainer | None = None
        self._changed = threading.Condition(lock)
        self._active = set(range(members))
        self._requests: dict[int, _Request] = {}
        self._answers: dict[int, Advanced | BaseException] = {}
        self._stacked: _StackedState | None = None  # after the last call
        self.last_call_seconds: float | None = None

    def member_trainer(self, index: int, trainer: CompiledTrainer, schedule: HistogramSchedule) -> MemberTrainer:
        """The trainer of a member; the members' own trainers share compiled code (`CompiledTrainer.again`)."""
        self._trainer = self._trainer or trainer
        assert trainer.agent is self._trainer.agent, "members of another shape"
        if trainer.agent.algorithm.learns_from != "rollout":
            raise UserError(
                "--vmap: this algorithm learns from replay, and one program cannot hold a buffer for each run"
            )
        return MemberTrainer(self, index, trainer, schedule)

    @property
    def trainer(self) -> CompiledTrainer:
        assert self._trainer is not None
        return self._trainer

    def advance(self, index: int, request: _Request) -> Advanced:
        """Block until all members have requested updates and the call has run."""
        self._requests[index] = request
        self._answer_if_complete()
        while index not in self._answers:
            self._changed.wait()
        answer = self._answers.pop(index)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def leave(self, index: int) -> None:
        """The others no longer wait for this member."""
        self._active.discard(index)
        self._answer_if_complete()

    def _answer_if_complete(self) -> None:
        """The last member to request makes the call: waking all at every request would take longer than the call."""
        if not self._active or self._requests.keys() != self._active:
            return
        requests = self._requests
        self._requests = {}
        try:
            self._answers |= self._call(requests)
        except BaseException as error:  # every waiting member must get an answer
            self._answers |= dict.fromkeys(requests, error)
        self._changed.notify_all()

    def _call(self, requests: dict[int, _Request]) -> dict[int, Advanced | BaseException]:
        count = min(len(request.hp) for request in requests.values())
        table = np.zeros((self.trainer.most, self.members, len(self.trainer.hp_names) + 1), np.float32)
        clocks = [Clock()] * self.members
        active = np.zeros(self.members, bool)
        stop = np.full(self.members, np.inf, np.float32)
        flags = np.zeros(self.trainer.most, bool)
        for i, request in requests.items():
            table[:count, i] = request.hp[:count]
            clocks[i] = request.clock
            active[i] = True
            stop[i] = request.stop_return
            # One flag for all members: under vmap a condition per member would always run both branches.
            flags[:count] |= request.measured[:count]
        before = self._state(requests)
        clock = jax.tree.map(lambda *counts: np.stack(counts), *map(learning_clock, clocks))
        start = time.perf_counter()
        after, rows, done, faults = self._run(before, clock, table, flags, np.int32(count), stop, active)
        self._stacked = stacked_state = _StackedState(after)
        done = int(done)
        faults = np.asarray(faults)
        values = np.asarray(_used_rows(rows, done))
        self.last_call_seconds = time.perf_counter() - start
        answers: dict[int, Advanced | BaseException] = {}
        for i, request in requests.items():
            if faults[i]:
                answers[i] = self._run_solo(request, done)
            else:
                unpacked = unpack_rows(self.trainer.agent, self.trainer.names, values[:done, i], request.measured)
                answers[i] = Advanced(StateRef(stacked_state, i), unpacked)
        return answers

    def _run_solo(self, request: _Request, count: int) -> Advanced | BaseException:
        """Re-run a member that went non-finite by itself, which raises its NumericalFault."""
        try:
            state = jax.device_put(_materialize(request.state))
            return self.trainer.advance(state, request.clock, request.hp[:count], request.stop_return)
        except Exception as error:  # raised again in the member's own thread
            return error

    def _state(self, requests: dict[int, _Request]) -> TrainState:
        """The group's state: that of the last call, with the rows of members that bring another state replaced."""
        own = {i: request.state for i, request in requests.items() if not self._holds(request.state)}
        if self._stacked is None or len(own) == self.members:
            filler = next(iter(own.values()))  # for members that have ended
            return _stacked([_materialize(own.get(i, filler)) for i in range(self.members)])
        stacked = self._stacked.state
        for i, state in own.items():
            stacked = _with_row(stacked, _materialize(state), np.int32(i))
        return stacked

    def _holds(self, state: TrainState | StateRef) -> bool:
        return isinstance(state, StateRef) and state.stacked is self._stacked

    def _updates(
        self, state: TrainState, clock: LearningClock, table: Array, flags: Array, k: Array, stop: Array, active: Array
    ) -> tuple[TrainState, Array, Array, Array]:
        """Traced: `CompiledTrainer`'s updates with a member axis. A call ends for all where it ends for one."""
        step = jax.jit(jax.vmap(self.trainer.step, in_axes=(0, 0, 0, None, 0)), inline=True)
        _, _, row, *_ = jax.eval_shape(step, state, clock, table[0], flags[0], stop)
        rows = jnp.zeros((self.trainer.most, *row.shape), jnp.float32)

        def body(now: tuple[Tree, ...]) -> tuple[Tree, ...]:
            i, state, clock, rows, *_ = now
            state, clock, row, reached, fault = step(state, clock, table[i], flags[i], stop)
            rows = lax.dynamic_update_index_in_dim(rows, row, i, 0)
            return i + 1, state, clock, rows, (active & (reached | fault)).any(), fault

        begin = (jnp.int32(0), state, clock, rows, jnp.bool_(False), jnp.zeros(self.members, bool))
        done, state, _, rows, _, fault = lax.while_loop(lambda now: (now[0] < k) & ~now[4], body, begin)
        fault |= ~jax.vmap(self.trainer.agent.is_finite)(state)
        return state, rows, done, fault


@jax.jit
def _with_row(stacked: TrainState, state: TrainState, index: Array) -> TrainState:
    return jax.tree.map(lambda x, row: x.at[index].set(row), stacked, state)


def _materialize(state: TrainState | StateRef) -> TrainState:
    return state.materialize() if isinstance(state, StateRef) else state


def _stacked(states: list[TrainState]) -> TrainState:
    """Stacked on the host: a compiled stack would take one argument per tensor and member."""
    host = jax.device_get([jax.tree.map(_plain, state) for state in states])
    return jax.device_put(jax.tree.map(lambda like, *rows: _like(np.stack(rows), like), states[0], *host))


def _plain(x: Array) -> Array:
    return jax.random.key_data(x) if _is_key(x) else x


def _like(numbers: np.ndarray, like: Array) -> Array:
    return jax.random.wrap_key_data(jnp.asarray(numbers), impl=jax.random.key_impl(like)) if _is_key(like) else numbers


def _is_key(x: Array) -> bool:
    return jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


@partial(jax.jit, static_argnums=1)
def _first_rows(rows: Array, count: int) -> Array:
    return rows[:count]


def _used_rows(rows: Array, done: int) -> Array:
    """The rows in use, rounded up to a power of two: the whole buffer is long to transfer from the device."""
    return _first_rows(rows, min(len(rows), 1 << max(done - 1, 0).bit_length()))


class MemberTrainer:
    """The trainer of one member."""

    call_seconds = 1.0  # longer than of a run by itself: the members' work between two calls adds up

    def __init__(self, runs: VmappedRuns, index: int, solo: CompiledTrainer, schedule: HistogramSchedule) -> None:
        self._runs = runs
        self._index = index
        self._solo = solo
        self._schedule = schedule
        self.most = solo.most
        self.agent = solo.agent

    @property
    def last_call_seconds(self) -> float | None:
        return self._runs.last_call_seconds

    def materialize(self, state: TrainState | StateRef) -> TrainState:
        return _materialize(state)

    def start(self, seed: int, *, ahead: bool = False) -> TrainState:
        del ahead  # the group has a program of its own
        state = self._solo.start(seed)
        return jax.tree.map(_like, jax.device_get(jax.tree.map(_plain, state)), state)

    def advance(self, state: TrainState | StateRef, clock: Clock, hp: Array, stop_return: float) -> Advanced:
        measured = self._schedule.at(clock.updates, len(hp))
        return self._runs.advance(self._index, _Request(state, clock, hp, stop_return, measured))

    def save(self, state: TrainState) -> Tensors:
        return self._solo.save(state)

    def load(self, state: TrainState, tensors: Tensors) -> tuple[TrainState, list[str]]:
        return self._solo.load(state, tensors)

    def close(self) -> None:
        self._runs.leave(self._index)
