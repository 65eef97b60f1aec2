"""Many runs of one shape in one vmapped program: seeds, or values of scheduled hyperparameters.

Every member has its own loop, features and run folder, in a thread of its own, and a `Seat` in place of a program. A
seat's `advance` waits until all others have asked too; then one compiled call makes the updates of all of them, as many
as the one that wants fewest. So loops and features know nothing of each other: they see rows and a state as ever.

Inside, the state has a leading member axis; it is taken apart at the border, once a call. A member that has ended keeps
its place, and what is computed there is thrown away. Rounding differs from a run by itself: members agree with theirs
to about 1e-6 at first and drift apart as any two roundings do, so equality is statistical in the end.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gymlab.core.types import Array, Tree
from gymlab.training.agent import window_reached
from gymlab.training.looks import Looks
from gymlab.training.program import Advanced, CompiledProgram
from gymlab.training.rows import packed, read_rows
from gymlab.training.state import TrainState
from gymlab.training.tensors import Tensors


class _Request(NamedTuple):
    """What one member wants: `CompiledProgram.advance`'s arguments, and at which updates it looks."""

    state: TrainState
    first: int
    hp: Array
    stop_return: float
    looks: np.ndarray


class Lockstep:
    """The table the seats are at."""

    def __init__(self, members: int) -> None:
        self.members = members
        self._stack = jax.jit(lambda states: jax.tree.map(lambda *rows: jnp.stack(rows), *states))
        self._unstack = jax.jit(lambda state: [_row(state, i) for i in range(members)])
        self._run = jax.jit(self._updates)
        self._program: CompiledProgram | None = None
        self._names: list[str] = []
        self._changed = threading.Condition()
        self._here = set(range(members))
        self._asked: dict[int, _Request] = {}
        self._answers: dict[int, Advanced | BaseException] = {}
        self._given: list[TrainState] = []  # to each member by the last call
        self._stacked: TrainState | None = None  # the same in one

    def seat(self, index: int, program: CompiledProgram, looks: Looks) -> Seat:
        """A place for a member's program. All of them share what is compiled (`CompiledProgram.again`)."""
        with self._changed:
            self._program = self._program or program
            assert program.agent is self._program.agent, "members of another shape"
        return Seat(self, index, program, looks)

    @property
    def program(self) -> CompiledProgram:
        assert self._program is not None
        return self._program

    def advance(self, index: int, request: _Request) -> Advanced:
        """What `_Request`'s member gets, once everyone has asked."""
        with self._changed:
            self._asked[index] = request
            self._changed.notify_all()
            while index not in self._answers:
                if self._asked.keys() == self._here and index == min(self._here):
                    self._answer()
                    self._changed.notify_all()
                else:
                    self._changed.wait()
            answer = self._answers.pop(index)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def leave(self, index: int) -> None:
        """This member asks no more."""
        with self._changed:
            self._here.discard(index)
            self._changed.notify_all()

    def _answer(self) -> None:
        asked, self._asked = self._asked, {}
        try:
            self._answers |= self._call(asked)
        except BaseException as error:  # nobody may wait for ever
            self._answers |= dict.fromkeys(asked, error)

    def _call(self, asked: dict[int, _Request]) -> dict[int, Advanced | BaseException]:
        count = min(len(request.hp) for request in asked.values())
        table = np.zeros((self.program.most, self.members, len(self.program.hp_names)), np.float32)
        first, active = np.zeros(self.members, np.uint32), np.zeros(self.members, bool)
        stop, flags = np.full(self.members, np.inf, np.float32), np.zeros(self.program.most, bool)
        for i, request in asked.items():
            table[:count, i], first[i], active[i], stop[i] = (
                request.hp[:count],
                request.first,
                True,
                request.stop_return,
            )
            flags[:count] |= request.looks[:count]  # of all, where one looks: a condition per member would look always
        after, rows, done, faults = self._run(self._state(asked), first, table, flags, np.int32(count), stop, active)
        self._stacked, self._given = after, self._unstack(after)
        done, faults = int(done), np.asarray(faults)
        values = np.asarray(_cut(rows, done))
        answers: dict[int, Advanced | BaseException] = {}
        for i, request in asked.items():
            if faults[i]:
                answers[i] = self._alone(request, done)
            else:
                told = read_rows(self.program.agent, self._names, values[:done, i], request.looks)
                answers[i] = Advanced(self._given[i], told)
        return answers

    def _alone(self, request: _Request, count: int) -> Advanced | BaseException:
        """Where a member's numbers went bad it is run by itself, which finds and tells what was wrong."""
        try:
            return self.program.advance(request.state, request.first, request.hp[:count], request.stop_return)
        except Exception as error:
            return error

    def _state(self, asked: dict[int, _Request]) -> TrainState:
        """Everyone's state in one; the last call's, unless somebody comes with another."""
        if self._stacked is not None and all(request.state is self._given[i] for i, request in asked.items()):
            return self._stacked
        anyone = next(iter(asked.values())).state
        rest = self._given or [anyone] * self.members
        return self._stack([asked[i].state if i in asked else rest[i] for i in range(self.members)])

    def _updates(
        self, state: TrainState, first: Array, table: Array, looks: Array, k: Array, stop: Array, active: Array
    ) -> tuple[TrainState, Array, Array, Array]:
        """As `CompiledProgram`'s, but for the member axis. A call ends for all where it ends for one."""
        step = jax.jit(jax.vmap(self.program.update, in_axes=(0, 0, 0, None)), inline=True)
        shapes = jax.eval_shape(step, state, first, table[0], looks[0])
        self._names[:] = sorted(shapes.metrics)
        width = len(self._names) + (0 if shapes.look is None else shapes.look.shape[-1])
        rows = jnp.zeros((self.program.most, self.members, width), jnp.float32)

        def body(now: tuple[Tree, ...]) -> tuple[Tree, ...]:
            i, state, rows, *_ = now
            state, metrics, fault, look = step(state, first + i.astype(jnp.uint32), table[i], looks[i])
            row = packed(metrics, self._names, look)
            ended = active & (window_reached(metrics, stop) | fault)
            return i + 1, state, rows.at[i].set(row), ended.any(), fault

        begin = (jnp.int32(0), state, rows, jnp.bool_(False), jnp.zeros(self.members, bool))
        done, state, rows, _, fault = lax.while_loop(lambda now: (now[0] < k) & ~now[3], body, begin)
        fault |= ~jax.vmap(self.program.agent.sound)(state)
        return state, rows, done, fault


def _row(state: TrainState, index: int) -> TrainState:
    return jax.tree.map(lambda x: x[index], state)


@partial(jax.jit, static_argnums=1)
def _first_rows(rows: Array, count: int) -> Array:
    return rows[:count]


def _cut(rows: Array, done: int) -> Array:
    """Not much more than the rows there are: the whole buffer is long, and comes over from the device."""
    return _first_rows(rows, min(len(rows), 1 << max(done - 1, 0).bit_length()))


class Seat:
    """A member's program."""

    def __init__(self, table: Lockstep, index: int, alone: CompiledProgram, looks: Looks) -> None:
        self._table, self._index, self._alone, self._looks = table, index, alone, looks
        self.most, self.agent = alone.most, alone.agent

    def start(self, seed: int) -> TrainState:
        return self._alone.start(seed)

    def advance(self, state: TrainState, first: int, hp: Array, stop_return: float) -> Advanced:
        looks = self._looks.at(first, len(hp))
        return self._table.advance(self._index, _Request(state, first, hp, stop_return, looks))

    def save(self, state: TrainState) -> Tensors:
        return self._alone.save(state)

    def load(self, state: TrainState, tensors: Tensors) -> tuple[TrainState, list[str]]:
        return self._alone.load(state, tensors)

    def close(self) -> None:
        self._table.leave(self._index)
