"""Many runs of one shape in one vmapped program: seeds, or values of scheduled hyperparameters.

Every member has its own loop, features and run folder, in a thread of its own, and a `Seat` in place of a program. A
seat's `advance` waits until all others have asked too; then one compiled call makes the updates of all of them, as many
as the one that wants fewest. So loops and features know nothing of each other: they see rows and a state as ever.

Inside, the state has a leading member axis, and there it stays: what a member is given stands for its row, which is
taken out only to be looked at (`Seat.opened`). A member that has ended keeps its place, and what is computed there is
thrown away. Rounding differs from a run by itself: members agree with theirs
to about 1e-6 at first and drift apart as any two roundings do, so equality is statistical in the end.
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

from gymlab.core.types import Array, Tree
from gymlab.training.named_tensors import Tensors
from gymlab.training.state import TrainState
from gymlab.training.trainer import Advanced, unpack_rows
from gymlab.training.trainer_compiled import CompiledTrainer
from gymlab.training.update_histograms import HistogramSchedule


class _Everyone:
    """The state of all after a call, and a copy on the host where anyone looks at theirs."""

    def __init__(self, state: TrainState) -> None:
        self.state = state
        self._copy: TrainState | None = None

    def row(self, index: int) -> TrainState:
        """One member's, on the host: all look at the same moments, and one transfer serves them all."""
        if self._copy is None:
            self._copy = jax.device_get(jax.tree.map(_plain, self.state))
        return jax.tree.map(lambda rows, like: _like(rows[index], like), self._copy, self.state)


class MemberState(NamedTuple):
    """Stands for one member's state: a row of everyone's."""

    everyone: _Everyone
    row: int

    def opened(self) -> TrainState:
        return self.everyone.row(self.row)


class _Request(NamedTuple):
    """What one member wants: `CompiledProgram.advance`'s arguments, and at which updates it looks."""

    state: TrainState | MemberState
    first: int
    hp: Array
    stop_return: float
    looks: np.ndarray


class VmappedRuns:
    """The table the seats are at."""

    def __init__(self, members: int, turn: threading.Lock) -> None:
        """`turn` is the members' (`core.turns`): they hold it whenever they call."""
        self.members = members
        self._run = jax.jit(self._updates)
        self._program: CompiledTrainer | None = None
        self._changed = threading.Condition(turn)
        self._here = set(range(members))
        self._asked: dict[int, _Request] = {}
        self._answers: dict[int, Advanced | BaseException] = {}
        self._everyone: _Everyone | None = None  # after the last call
        self.called: float | None = None  # its seconds

    def seat(self, index: int, program: CompiledTrainer, looks: HistogramSchedule) -> MemberTrainer:
        """A place for a member's program. All of them share what is compiled (`CompiledProgram.again`)."""
        self._program = self._program or program
        assert program.agent is self._program.agent, "members of another shape"
        return MemberTrainer(self, index, program, looks)

    @property
    def program(self) -> CompiledTrainer:
        assert self._program is not None
        return self._program

    def advance(self, index: int, request: _Request) -> Advanced:
        """What `_Request`'s member gets, once everyone has asked."""
        self._asked[index] = request
        self._answer_if_complete()
        while index not in self._answers:
            self._changed.wait()
        answer = self._answers.pop(index)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def leave(self, index: int) -> None:
        """This member asks no more."""
        self._here.discard(index)
        self._answer_if_complete()

    def _answer_if_complete(self) -> None:
        """Whoever comes last makes the call: waking all at every arrival would take longer than the call itself."""
        if not self._here or self._asked.keys() != self._here:
            return
        asked = self._asked
        self._asked = {}
        try:
            self._answers |= self._call(asked)
        except BaseException as error:  # nobody may wait for ever
            self._answers |= dict.fromkeys(asked, error)
        self._changed.notify_all()

    def _call(self, asked: dict[int, _Request]) -> dict[int, Advanced | BaseException]:
        count = min(len(request.hp) for request in asked.values())
        table = np.zeros((self.program.most, self.members, len(self.program.hp_names)), np.float32)
        first = np.zeros(self.members, np.uint32)
        active = np.zeros(self.members, bool)
        stop = np.full(self.members, np.inf, np.float32)
        flags = np.zeros(self.program.most, bool)
        for i, request in asked.items():
            table[:count, i], first[i], active[i], stop[i] = (
                request.hp[:count],
                request.first,
                True,
                request.stop_return,
            )
            flags[:count] |= request.looks[:count]  # of all, where one looks: a condition per member would look always
        before = self._state(asked)
        began = time.perf_counter()
        after, rows, done, faults = self._run(before, first, table, flags, np.int32(count), stop, active)
        self._everyone = everyone = _Everyone(after)
        done = int(done)
        faults = np.asarray(faults)
        values = np.asarray(_cut(rows, done))
        self.called = time.perf_counter() - began
        answers: dict[int, Advanced | BaseException] = {}
        for i, request in asked.items():
            if faults[i]:
                answers[i] = self._alone(request, done)
            else:
                told = unpack_rows(self.program.agent, self.program.names, values[:done, i], request.looks)
                answers[i] = Advanced(MemberState(everyone, i), told)
        return answers

    def _alone(self, request: _Request, count: int) -> Advanced | BaseException:
        """Where a member's numbers went bad it is run by itself, which finds and tells what was wrong."""
        try:
            state = jax.device_put(_opened(request.state))
            return self.program.advance(state, request.first, request.hp[:count], request.stop_return)
        except Exception as error:
            return error

    def _state(self, asked: dict[int, _Request]) -> TrainState:
        """Everyone's state in one: the last call's, but for those who come with another."""
        own = {i: request.state for i, request in asked.items() if not self._holds(request.state)}
        if self._everyone is None or len(own) == self.members:
            anyone = next(iter(own.values()))
            return _stacked([_opened(own.get(i, anyone)) for i in range(self.members)])
        everyone = self._everyone.state
        for i, state in own.items():
            everyone = _with_row(everyone, _opened(state), np.int32(i))
        return everyone

    def _holds(self, state: TrainState | MemberState) -> bool:
        return isinstance(state, MemberState) and state.everyone is self._everyone

    def _updates(
        self, state: TrainState, first: Array, table: Array, looks: Array, k: Array, stop: Array, active: Array
    ) -> tuple[TrainState, Array, Array, Array]:
        """As `CompiledProgram`'s, but for the member axis. A call ends for all where it ends for one."""
        step = jax.jit(jax.vmap(self.program.step, in_axes=(0, 0, 0, None, 0)), inline=True)
        _, row, *_ = jax.eval_shape(step, state, first, table[0], looks[0], stop)
        rows = jnp.zeros((self.program.most, *row.shape), jnp.float32)

        def body(now: tuple[Tree, ...]) -> tuple[Tree, ...]:
            i, state, rows, *_ = now
            state, row, reached, fault = step(state, first + i.astype(jnp.uint32), table[i], looks[i], stop)
            rows = lax.dynamic_update_index_in_dim(rows, row, i, 0)
            return i + 1, state, rows, (active & (reached | fault)).any(), fault

        begin = (jnp.int32(0), state, rows, jnp.bool_(False), jnp.zeros(self.members, bool))
        done, state, rows, _, fault = lax.while_loop(lambda now: (now[0] < k) & ~now[3], body, begin)
        fault |= ~jax.vmap(self.program.agent.sound)(state)
        return state, rows, done, fault


@jax.jit
def _with_row(everyone: TrainState, state: TrainState, index: Array) -> TrainState:
    return jax.tree.map(lambda x, row: x.at[index].set(row), everyone, state)


def _opened(state: TrainState | MemberState) -> TrainState:
    return state.opened() if isinstance(state, MemberState) else state


def _stacked(states: list[TrainState]) -> TrainState:
    """By way of the host: compiled, it would be one argument for every tensor of every member."""

    here = jax.device_get([jax.tree.map(_plain, state) for state in states])
    return jax.device_put(jax.tree.map(lambda like, *rows: _like(np.stack(rows), like), states[0], *here))


def _plain(x: Array) -> Array:
    return jax.random.key_data(x) if _is_key(x) else x


def _like(numbers: np.ndarray, like: Array) -> Array:
    return jax.random.wrap_key_data(jnp.asarray(numbers), impl=jax.random.key_impl(like)) if _is_key(like) else numbers


def _is_key(x: Array) -> bool:
    return jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


@partial(jax.jit, static_argnums=1)
def _first_rows(rows: Array, count: int) -> Array:
    return rows[:count]


def _cut(rows: Array, done: int) -> Array:
    """Not much more than the rows there are: the whole buffer is long, and comes over from the device."""
    return _first_rows(rows, min(len(rows), 1 << max(done - 1, 0).bit_length()))


class MemberTrainer:
    """A member's program."""

    call_seconds = 1.0  # what every member does between two calls adds up

    def __init__(self, table: VmappedRuns, index: int, alone: CompiledTrainer, looks: HistogramSchedule) -> None:
        self._table = table
        self._index = index
        self._alone = alone
        self._looks = looks
        self.most = alone.most
        self.agent = alone.agent

    @property
    def called(self) -> float | None:
        return self._table.called

    def opened(self, state: TrainState | MemberState) -> TrainState:
        return _opened(state)

    def start(self, seed: int, *, ahead: bool = False) -> TrainState:
        del ahead  # the members' common program is another one
        state = self._alone.start(seed)
        return jax.tree.map(_like, jax.device_get(jax.tree.map(_plain, state)), state)

    def advance(self, state: TrainState | MemberState, first: int, hp: Array, stop_return: float) -> Advanced:
        looks = self._looks.at(first, len(hp))
        return self._table.advance(self._index, _Request(state, first, hp, stop_return, looks))

    def save(self, state: TrainState) -> Tensors:
        return self._alone.save(state)

    def load(self, state: TrainState, tensors: Tensors) -> tuple[TrainState, list[str]]:
        return self._alone.load(state, tensors)

    def close(self) -> None:
        self._table.leave(self._index)
