"""The compiled trainer: collects and learns in one compiled call of many updates, for envs written in JAX."""

from __future__ import annotations

import ctypes
import math
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from copy import copy

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gymlab.core.clock import Clock
from gymlab.core.jax_keys import named_key, run_key, stream_key
from gymlab.core.types import Array, Rollout, Tree
from gymlab.experience.replay_buffer import ReplayBuffer
from gymlab.training.agent import Agent, UpdateResult
from gymlab.training.collector_compiled import CompiledCollector
from gymlab.training.named_tensors import Tensors, from_tensors, to_tensors
from gymlab.training.nonfinite import BadUpdate, NumericalFault, find_nonfinite
from gymlab.training.state import GroupState, TrainState, match_skipped_updates
from gymlab.training.trainer import (
    CALL_SECONDS,
    LARGEST_CLOCK,
    Advanced,
    LearningClock,
    hyperparameters,
    learning_clock,
    pack_metrics,
    unpack_rows,
)
from gymlab.training.update_histograms import HistogramSchedule


class CompiledTrainer:
    """One compiled program for the whole run: the number of updates is an argument, so nothing is recompiled."""

    most = 256
    call_seconds = CALL_SECONDS
    last_call_seconds: float | None = None

    def __init__(
        self,
        agent: Agent,
        collectors: tuple[CompiledCollector, ...],
        hp_names: list[str],
        schedule: HistogramSchedule | None = None,
    ) -> None:
        self.agent = agent
        self._collectors = collectors
        self.hp_names = hp_names
        self._schedule = schedule or HistogramSchedule()
        self._start = jax.jit(self._begin)
        self._run = jax.jit(self._updates, donate_argnums=0)
        self._collect = jax.jit(self._collected)
        self.names: list[str] = []  # of a row's numbers, known once an update was traced
        self._compiling: Future[object] | None = None

    def again(self, schedule: HistogramSchedule) -> CompiledTrainer:
        """A trainer for another run that shares the compiled code."""
        other = copy(self)
        other._schedule = schedule
        return other

    def start(self, seed: int, *, ahead: bool = False) -> TrainState:
        keys = self._first_keys(seed)
        if ahead and not self.names:
            self._compile_ahead(keys)
        return self._start(*keys)

    def _first_keys(self, seed: int) -> tuple[object, ...]:
        """The arguments of `_begin`, made on the host: making them in a program would need compiling."""
        resets = tuple(named_key(seed, "first reset", i) for i in range(len(self._collectors)))
        return run_key(seed), named_key(seed, "weights"), resets

    def _compile_ahead(self, keys: tuple[object, ...]) -> None:
        """Compile `_begin`, and in the background the updates; the first call waits for them."""
        begin = self._start.lower(*keys)
        hp = np.zeros((0, len(self.hp_names) + 1), np.float32)
        threads = ThreadPoolExecutor(2)
        beginning = threads.submit(begin.compile)
        updates = self._run.lower(*self._arguments(begin.out_info, Clock(), hp, np.zeros(0, bool), math.inf))
        self._compiling = threads.submit(updates.compile)
        threads.shutdown(wait=False)
        beginning.result()

    def wait_compiled(self) -> None:
        """Wait for `_compile_ahead`, if it is running."""
        if (compiling := self._compiling) is not None:
            compiling.result()

    def materialize(self, state: TrainState) -> TrainState:
        return state

    def advance(self, state: TrainState, clock: Clock, hp: Array, stop_return: float) -> Advanced:
        advanced, bad_state = self._call(state, clock, hp, stop_return)
        if bad_state is None:
            return advanced
        good = advanced
        after = bad_state
        if self.agent.algorithm.learns_from == "rollout":
            good, after = self._cut_back(state, clock, hp[: len(advanced.rows) + 1], stop_return, bad_state)
        done = len(good.rows)
        clock = clock._replace(
            updates=clock.updates + done,
            vec_steps=clock.vec_steps + done * self._collectors[0].n_steps,
            env_steps=clock.env_steps + done * self._steps_per_update,
            gradient_steps=clock.gradient_steps + sum(row.gradient_steps for row in good.rows),
        )
        values = hyperparameters(self.hp_names, np.asarray(hp[done], np.float32), learning_clock(clock))
        bad = BadUpdate(clock, good.state, self.recollect(good.state, clock.updates), values, after)
        raise NumericalFault(bad, good, find_nonfinite(self.agent, bad))

    def _cut_back(
        self, state: TrainState, clock: Clock, hp: Array, stop_return: float, bad_state: TrainState
    ) -> tuple[Advanced, TrainState]:
        """Re-run as many of these updates as are finite, and the state after the first bad one; the last one is bad."""
        good = Advanced(state, [])
        finite = 0
        bad = len(hp)
        count = bad - 1
        while bad - finite > 1:  # one pass, or bisection where weights went bad before any loss did
            advanced, bad_again = self._call(state, clock, hp[:count], stop_return)
            if bad_again is None:
                good = advanced
                finite = count
            else:
                bad_state = bad_again
                bad = count
            count = (finite + bad) // 2
        return good, bad_state

    def recollect(self, state: TrainState, update: int) -> tuple[Rollout, ...]:
        """The rollouts that an update from this state learns from."""
        return self._collect(state, np.uint32(update))[1]

    def _call(
        self, state: TrainState, clock: Clock, hp: Array, stop_return: float
    ) -> tuple[Advanced, TrainState | None]:
        """Run some updates; where one is not finite, the rows before it was noticed, and the state after it."""
        if self._compiling is not None:
            self.wait_compiled()
            self._compiling = None
            _trim_heap()
        measured = self._schedule.at(clock.updates, len(hp))
        after, kept, rows, ends = self._run(*self._arguments(state, clock, hp, measured, stop_return))
        done, fault = np.asarray(ends).tolist()
        unpacked = unpack_rows(self.agent, self.names, np.asarray(rows)[: done - fault], measured)
        if fault and kept is not None:
            state = kept._replace(experience=after.experience)
        return Advanced(state if fault else after, unpacked), after if fault else None

    def _arguments(
        self, state: TrainState, clock: Clock, hp: Array, measured: Array, stop_return: float
    ) -> tuple[object, ...]:
        """The arguments of the compiled call, padded to constant shapes."""
        table = np.zeros((self.most, len(self.hp_names) + 1), np.float32)
        flags = np.zeros(self.most, bool)
        table[: len(hp)] = hp
        flags[: len(hp)] = measured
        return (
            state.experience,
            state._replace(experience=()),
            learning_clock(clock),
            table,
            flags,
            np.int32(len(hp)),
            np.float32(stop_return),
        )

    def save(self, state: TrainState) -> Tensors:
        return to_tensors(state)

    def load(self, state: TrainState, tensors: Tensors) -> tuple[TrainState, list[str]]:
        return from_tensors(state, match_skipped_updates(state, tensors)), []

    def close(self) -> None:
        """Nothing to close."""

    @property
    def _steps_per_update(self) -> int:
        """env_steps."""
        return sum(collector.n_steps * collector.engine.n_envs for collector in self._collectors)

    def _begin(self, key: Array, weights: Array, resets: tuple[Array, ...]) -> TrainState:
        sizes = tuple(collector.engine.n_envs for collector in self._collectors)
        groups = tuple(c.begin(reset) for c, reset in zip(self._collectors, resets, strict=True))
        algorithm = self.agent.algorithm.init(weights, sizes)
        experience = self.agent.initial_experience(groups, tuple(c.n_steps for c in self._collectors))
        return TrainState(algorithm, self.agent.initial_normaliser(), groups, key, self.agent.no_skips(), experience)

    def _collected(self, state: TrainState, update: Array) -> tuple[tuple[GroupState, ...], tuple[Rollout, ...]]:
        policy = self.agent.policy(state)
        groups = []
        rollouts = []
        for index, (collector, group) in enumerate(zip(self._collectors, state.groups, strict=True)):
            key = stream_key(state.key, "collect", index, update)
            group, rollout = collector.collect(policy, group, key)
            groups.append(group)
            rollouts.append(rollout)
        return tuple(groups), tuple(rollouts)

    def update(self, state: TrainState, clock: LearningClock, values: Array, measure: Array) -> UpdateResult:
        """One update, traced: collect, then learn with these scheduled values."""
        groups, rollouts = self._collected(state, clock.update.astype(jnp.uint32))
        hp = hyperparameters(self.hp_names, values, clock)
        return self.agent.learn(state._replace(groups=groups), rollouts, hp, measure)

    def step(
        self, state: TrainState, clock: LearningClock, values: Array, measure: Array, stop_return: Array
    ) -> tuple[TrainState, LearningClock, Array, Array, Array]:
        """One update, traced: the state and clock, its packed row, whether the stop return is reached, the fault."""
        result = self.update(state, clock, values, measure)
        self.names[:] = result.metrics
        reached = self.agent.window_reached(result.metrics, stop_return)
        steps = LearningClock(jnp.int32(1), jnp.int32(self._steps_per_update), result.gradient_steps)
        clock = jax.tree.map(lambda count, more: count + jnp.minimum(more, LARGEST_CLOCK - count), clock, steps)
        return result.state, clock, pack_metrics(result.metrics, result.histograms), reached, result.fault

    def _updates(
        self,
        experience: tuple[ReplayBuffer, ...],
        state: TrainState,
        clock: LearningClock,
        table: Array,
        flags: Array,
        k: Array,
        stop_return: Array,
    ) -> tuple[TrainState, TrainState | None, Array, Array]:
        """Traced: the state, a row per update, and [updates done, whether the last one is a fault].

        Replay buffers are donated, so nothing can be run again from `state`: the state before the last update is
        returned too, without the buffers.
        """
        state = state._replace(experience=experience)
        donated = self.agent.algorithm.learns_from == "replay"
        step = jax.jit(self.step, inline=True)  # traced once, for its shapes and for the loop
        _, _, row, *_ = jax.eval_shape(step, state, clock, table[0], flags[0], stop_return)
        rows = jnp.zeros((self.most, *row.shape), jnp.float32)

        def body(now: tuple[Tree, ...]) -> tuple[Tree, ...]:
            i, before, clock, rows, *_ = now
            state, clock, row, reached, fault = step(before, clock, table[i], flags[i], stop_return)
            kept = before._replace(experience=()) if donated else None
            return i + 1, state, clock, lax.dynamic_update_index_in_dim(rows, row, i, 0), reached, fault, kept

        kept = state._replace(experience=()) if donated else None
        begin = (jnp.int32(0), state, clock, rows, jnp.bool_(False), jnp.bool_(False), kept)
        end = lax.while_loop(lambda now: (now[0] < k) & ~now[4] & ~now[5], body, begin)
        done, state, _, rows, _, fault, kept = end
        if not donated:
            fault |= ~self.agent.is_finite(state)
        return state, kept, rows, jnp.stack([done, fault.astype(jnp.int32)])


def _trim_heap() -> None:
    """Return freed heap memory to the OS (`malloc_trim`): loading a compiled program leaves 35 MB, compiling far more.

    One arena for all threads (MALLOC_ARENA_MAX=1) would leave less behind, but XLA's compile threads then contend for
    it (a third slower), and the fragmentation slows every later call.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # a C library other than glibc
            ctypes.CDLL(None).malloc_trim(0)
