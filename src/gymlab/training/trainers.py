"""The two ways to run updates: around host envs one at a time, or many in one compiled call."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gymlab.core.jax_keys import named_key, run_key, stream_key
from gymlab.core.types import Array, Rollout, Tree
from gymlab.training.agent import Agent, Learnt, window_reached
from gymlab.training.collect_compiled import CompiledCollector
from gymlab.training.collect_host import HostCollector
from gymlab.training.compiling import compile_seconds
from gymlab.training.env_state import GroupState
from gymlab.training.heap import give_back_freed
from gymlab.training.histogram_schedule import Looks
from gymlab.training.metric_vector import Row, packed, read_rows
from gymlab.training.named_tensors import Tensors, from_tensors, split_tensors, to_tensors
from gymlab.training.nonfinite import BadUpdate, NumericalFault, examine
from gymlab.training.state import TrainState
from gymlab.training.trainer import CALL_SECONDS, Advanced


class CompiledProgram:
    """One program for the whole run: how many updates a call does is a number, so nothing is ever recompiled."""

    most = 256
    call_seconds = CALL_SECONDS
    called: float | None = None

    def __init__(
        self, agent: Agent, collectors: tuple[CompiledCollector, ...], hp_names: list[str], looks: Looks | None = None
    ) -> None:
        self.agent = agent
        self._collectors = collectors
        self.hp_names = hp_names
        self._looks = looks or Looks()
        self._start = jax.jit(self._begin)
        self._run = jax.jit(self._updates)
        self._collect = jax.jit(self._collected)
        self.names: list[str] = []  # of a row's numbers, known once an update was traced
        self._compiling: Future[Any] | None = None

    def again(self, looks: Looks) -> CompiledProgram:
        """The same program for another run: what is compiled is shared."""
        twin = copy(self)
        twin._looks = looks
        return twin

    def start(self, seed: int, *, ahead: bool = False) -> TrainState:
        keys = self._first_keys(seed)
        if ahead and not self.names:
            self._compile_ahead(keys)
        return self._start(*keys)

    def _first_keys(self, seed: int) -> tuple[Any, ...]:
        """What `_begin` takes: keys made here need not be made by a program, which would have to be compiled."""
        resets = tuple(named_key(seed, "first reset", i) for i in range(len(self._collectors)))
        return run_key(seed), named_key(seed, "weights"), resets

    def _compile_ahead(self, keys: tuple[Any, ...]) -> None:
        """What makes the first state, and in the background the updates: the first call of them will wait for that."""
        begin = self._start.lower(*keys)
        hp = np.zeros((0, len(self.hp_names)), np.float32)
        threads = ThreadPoolExecutor(2)
        beginning = threads.submit(begin.compile)
        updates = self._run.lower(*self._arguments(begin.out_info, 0, hp, np.zeros(0, bool), math.inf))
        self._compiling = threads.submit(updates.compile)
        threads.shutdown(wait=False)
        beginning.result()

    def wait_compiled(self) -> None:
        """Until the updates are compiled, where that is being done ahead."""
        if (compiling := self._compiling) is not None:
            compiling.result()

    def opened(self, state: TrainState) -> TrainState:
        return state

    def advance(self, state: TrainState, first: int, hp: Array, stop_return: float) -> Advanced:
        advanced, spoilt = self._call(state, first, hp, stop_return)
        if spoilt is None:
            return advanced
        good, after = self._cut_back(state, first, hp[: len(advanced.rows) + 1], stop_return, spoilt)
        update = first + len(good.rows)
        values = np.asarray(hp[len(good.rows)], np.float32)
        rollouts = self.recollect(good.state, update)
        bad = BadUpdate(update, good.state, rollouts, dict(zip(self.hp_names, values, strict=True)), after)
        raise NumericalFault(bad, good, examine(self.agent, bad))

    def _cut_back(
        self, state: TrainState, first: int, hp: Array, stop_return: float, spoilt: TrainState
    ) -> tuple[Advanced, TrainState]:
        """As many of these updates, the last of them bad, as are sound; made again, they come out the same."""
        good = Advanced(state, [])
        sound = 0
        bad = len(hp)
        count = bad - 1
        while bad - sound > 1:  # once, unless weights went bad that no loss has met yet: then it is found by halving
            tried, again = self._call(state, first, hp[:count], stop_return)
            good, sound, bad, spoilt = (tried, count, bad, spoilt) if again is None else (good, sound, count, again)
            count = (sound + bad) // 2
        return good, spoilt

    def recollect(self, state: TrainState, update: int) -> tuple[Rollout, ...]:
        """What an update from this state learns from, by itself."""
        return self._collect(state, np.uint32(update))[1]

    def _call(self, state: TrainState, first: int, hp: Array, stop_return: float) -> tuple[Advanced, TrainState | None]:
        """Some updates; or, where numbers went bad, the rows before that was noticed, and the state that is bad."""
        if self._compiling is not None:
            self.wait_compiled()
            self._compiling = None
            give_back_freed()
        looks = self._looks.at(first, len(hp))
        after, rows, ends = self._run(*self._arguments(state, first, hp, looks, stop_return))
        done, fault = np.asarray(ends).tolist()
        told = read_rows(self.agent, self.names, np.asarray(rows)[: done - fault], looks)
        return Advanced(state if fault else after, told), after if fault else None

    def _arguments(self, state: TrainState, first: int, hp: Array, looks: Array, stop_return: float) -> tuple[Any, ...]:
        """Of the compiled call: their shapes are always the same."""
        table = np.zeros((self.most, len(self.hp_names)), np.float32)
        flags = np.zeros(self.most, bool)
        table[: len(hp)], flags[: len(hp)] = hp, looks
        return state, np.uint32(first), table, flags, np.int32(len(hp)), np.float32(stop_return)

    def save(self, state: TrainState) -> Tensors:
        return to_tensors(state)

    def load(self, state: TrainState, tensors: Tensors) -> tuple[TrainState, list[str]]:
        return from_tensors(state, _with_counts(state, tensors)), []

    def close(self) -> None:
        """Nothing is held open."""

    def _begin(self, key: Array, weights: Array, resets: tuple[Array, ...]) -> TrainState:
        sizes = tuple(collector.engine.n_envs for collector in self._collectors)
        groups = tuple(c.begin(reset) for c, reset in zip(self._collectors, resets, strict=True))
        algorithm = self.agent.algorithm.init(weights, sizes)
        return TrainState(algorithm, self.agent.normalising.init(), groups, key, self.agent.no_skips())

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

    def update(self, state: TrainState, update: Array, values: Array, look: Array) -> Learnt:
        """One update, to be traced: collect, then learn with these scheduled values."""
        groups, rollouts = self._collected(state, update)
        hp = {name: values[i] for i, name in enumerate(self.hp_names)}
        return self.agent.learn(state._replace(groups=groups), rollouts, hp, update, look)

    def step(
        self, state: TrainState, update: Array, values: Array, look: Array, stop_return: Array
    ) -> tuple[TrainState, Array, Array, Array]:
        """An update with its row, to be traced; then whether the returns asked for are reached, and the fault."""
        learnt = self.update(state, update, values, look)
        self.names[:] = learnt.metrics
        reached = window_reached(learnt.metrics, stop_return)
        return learnt.state, packed(learnt.metrics, learnt.look), reached, learnt.fault

    def _updates(
        self, state: TrainState, first: Array, table: Array, looks: Array, k: Array, stop_return: Array
    ) -> tuple[TrainState, Array, Array]:
        """The state, a row per update, and how many were done and whether the last of them is a fault."""
        step = jax.jit(self.step, inline=True)  # traced once, for its shapes and for the loop
        _, row, *_ = jax.eval_shape(step, state, first, table[0], looks[0], stop_return)
        rows = jnp.zeros((self.most, *row.shape), jnp.float32)

        def body(now: tuple[Tree, ...]) -> tuple[Tree, ...]:
            i, state, rows, *_ = now
            state, row, reached, fault = step(state, first + i.astype(jnp.uint32), table[i], looks[i], stop_return)
            return i + 1, state, lax.dynamic_update_index_in_dim(rows, row, i, 0), reached, fault

        begin = (jnp.int32(0), state, rows, jnp.bool_(False), jnp.bool_(False))
        done, state, rows, _, fault = lax.while_loop(lambda now: (now[0] < k) & ~now[3] & ~now[4], body, begin)
        fault |= ~self.agent.sound(state)
        return state, rows, jnp.stack([done, fault.astype(jnp.int32)])


class HostProgram:
    """One update per call: collect from host envs, then learn in one compiled call."""

    most = 1
    call_seconds = CALL_SECONDS
    called: float | None = None

    def __init__(
        self, agent: Agent, collectors: tuple[HostCollector, ...], hp_names: list[str], looks: Looks | None = None
    ) -> None:
        self.agent = agent
        self._collectors = collectors
        self.hp_names = hp_names
        self._looks = looks or Looks()
        self._init = jax.jit(self._begin)
        self._learn = jax.jit(self._packed)
        self._collect_key = jax.jit(lambda key, group, update: stream_key(key, "collect", group, update))
        self._names: list[str] = []

    def again(self, engines: Sequence[Any], looks: Looks) -> HostProgram:
        """The same program for another run, with envs of its own: what is compiled is shared."""
        twin = copy(self)
        twin._looks = looks
        twin._collectors = tuple(c.again(engine) for c, engine in zip(self._collectors, engines, strict=True))
        return twin

    def start(self, seed: int, *, ahead: bool = False) -> TrainState:
        del ahead  # what is compiled depends on what the envs give
        groups = tuple(c.begin(named_key(seed, "first reset", i)) for i, c in enumerate(self._collectors))
        algorithm, normaliser = self._init(named_key(seed, "weights"))
        return TrainState(algorithm, normaliser, groups, run_key(seed), self.agent.no_skips())

    def opened(self, state: TrainState) -> TrainState:
        return state

    def advance(self, state: TrainState, first: int, hp: Array, stop_return: float) -> Advanced:
        del stop_return  # one update a call: whoever watches the rows can stop in time
        began = time.perf_counter()
        compiled = compile_seconds()
        groups, rollouts = self._collect(state, np.uint32(first))
        collected = time.perf_counter()
        compiled_to_collect = compile_seconds() - compiled
        values = dict(zip(self.hp_names, np.asarray(hp[0], np.float32), strict=True))
        # What the envs and transforms hold stays on the host; only the statistics go through the compiled call.
        slim = state._replace(groups=tuple(g._replace(transforms=(), obs=(), fresh=()) for g in groups))
        looks = self._looks.at(first, 1)[0]
        learnt, packed, look = self._learn(slim, rollouts, values, np.uint32(first), looks)
        *metrics, fault = np.asarray(packed).tolist()
        if fault:
            bad = BadUpdate(first, state, rollouts, values, learnt)
            raise NumericalFault(bad, Advanced(state, []), examine(self.agent, bad))
        kept = zip(groups, learnt.groups, strict=True)
        state = learnt._replace(
            groups=tuple(g._replace(episodes=new.episodes, discounted=new.discounted) for g, new in kept)
        )
        row = Row(zip(self._names, metrics, strict=True))
        if looks and look is not None:
            taken, row.histograms = self.agent.layout.unpack(np.asarray(look))
            row |= taken
        row["env/restarts"] = float(sum(collector.engine.restarts for collector in self._collectors))
        learning = compile_seconds() - compiled - compiled_to_collect
        row["time/collect"] = max(0.0, collected - began - compiled_to_collect)
        row["time/update"] = max(0.0, time.perf_counter() - collected - learning)
        return Advanced(state, [row])

    def _collect(self, state: TrainState, update: Array) -> tuple[tuple[GroupState, ...], tuple[Rollout, ...]]:
        policy = self.agent.policy(state)
        groups = []
        rollouts = []
        for index, (collector, group) in enumerate(zip(self._collectors, state.groups, strict=True)):
            key = self._collect_key(state.key, np.uint32(index), update)
            group, rollout = collector.collect(policy, group, key)
            groups.append(group)
            rollouts.append(rollout)
        return tuple(groups), tuple(rollouts)

    def save(self, state: TrainState) -> Tensors:
        groups = (g._replace(env=c.engine.snapshot()) for g, c in zip(state.groups, self._collectors, strict=True))
        return to_tensors(state._replace(groups=tuple(groups)))

    def load(self, state: TrainState, tensors: Tensors) -> tuple[TrainState, list[str]]:
        # How long the envs' action logs are depends on the moment, so no template knows their shape.
        envs, rest = split_tensors(tensors, [f"groups/{index}/env/" for index in range(len(self._collectors))])
        saved = from_tensors(state, _with_counts(state, rest))
        reasons: list[str] = []
        groups = []
        for group, snapshot, collector in zip(saved.groups, envs, self._collectors, strict=True):
            restored = collector.engine.restore(snapshot)
            if not restored.exact:
                reasons.append(restored.reason)
                group = collector.rejoin(group, restored.step)
            groups.append(group)
        algorithm = self.agent.algorithm.forget_open_episodes(saved.algorithm) if reasons else saved.algorithm
        return saved._replace(groups=tuple(groups), algorithm=algorithm), reasons

    def close(self) -> None:
        for collector in self._collectors:
            collector.engine.close()

    def _begin(self, weights: Array) -> tuple[Tree, Tree]:
        sizes = tuple(collector.engine.n_envs for collector in self._collectors)
        return self.agent.algorithm.init(weights, sizes), self.agent.normalising.init()

    def _packed(self, *args: Any) -> tuple[TrainState, Array, Array | None]:
        """The state after learning, and the metrics with the fault behind them: one array is quicker to read."""
        state, metrics, fault, look = self.agent.learn(*args)
        self._names[:] = metrics
        fault = (fault | ~self.agent.sound(state)).astype(jnp.float32)
        return state, packed(metrics, fault[None]), look


def _with_counts(state: TrainState, tensors: Tensors) -> Tensors:
    """The tensors with the counts that `state` has or has not: a run may turn to `on_nan: skip`, or back."""
    wanted = {f"skipped/{name}": tensor for name, tensor in to_tensors(state.skipped).items()}
    (held,), rest = split_tensors(tensors, ["skipped/"])
    return tensors if bool(wanted) == bool(held) else rest | wanted
