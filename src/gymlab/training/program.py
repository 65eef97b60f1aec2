"""The two ways to run updates: around host envs one at a time, or many in one compiled call."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gymlab.core.keys import run_key, stream_key
from gymlab.core.types import Array, Tree
from gymlab.rollout.compiled import CompiledCollector
from gymlab.rollout.host import HostCollector
from gymlab.training.agent import Agent, window_reached
from gymlab.training.state import TrainState
from gymlab.training.tensors import Tensors, from_tensors, split_tensors, to_tensors

Row = dict[str, float]


class Advanced(NamedTuple):
    """What some updates gave."""

    state: TrainState
    rows: list[Row]  # one per executed update; fewer than asked for when the training return was reached


class Program(Protocol):
    """Runs updates. `most` bounds how many one call can do."""

    most: int
    agent: Agent

    def start(self, seed: int) -> TrainState: ...
    def advance(self, state: TrainState, first: int, hp: Array, stop_return: float) -> Advanced:
        """Run len(hp) updates from update number `first` (from 0); `hp` is (k, n) scheduled values."""
        ...

    def save(self, state: TrainState) -> Tensors:
        """The state as tensors, with the envs' own in it."""
        ...

    def load(self, state: TrainState, tensors: Tensors) -> tuple[TrainState, list[str]]:
        """The saved state in the shape of `state` (a started one), and why it is not exactly what it was, if so."""
        ...

    def close(self) -> None: ...


class CompiledProgram:
    """One program for the whole run: how many updates a call does is a number, so nothing is ever recompiled."""

    most = 256

    def __init__(self, agent: Agent, collectors: tuple[CompiledCollector, ...], hp_names: list[str]) -> None:
        self.agent, self._collectors, self._hp_names = agent, collectors, hp_names
        self._start = jax.jit(self._begin)
        self._run = jax.jit(self._updates)
        self._names: list[str] = []

    def start(self, seed: int) -> TrainState:
        return self._start(run_key(seed))

    def advance(self, state: TrainState, first: int, hp: Array, stop_return: float) -> Advanced:
        table = np.zeros((self.most, len(self._hp_names)), np.float32)
        table[: len(hp)] = hp
        state, rows, done = self._run(state, np.uint32(first), table, np.int32(len(hp)), np.float32(stop_return))
        values = np.asarray(rows)[: int(done)].tolist()
        return Advanced(state, [dict(zip(self._names, row, strict=True)) for row in values])

    def save(self, state: TrainState) -> Tensors:
        return to_tensors(state)

    def load(self, state: TrainState, tensors: Tensors) -> tuple[TrainState, list[str]]:
        return from_tensors(state, tensors), []

    def close(self) -> None:
        """Nothing is held open."""

    def _begin(self, key: Array) -> TrainState:
        sizes = tuple(collector.engine.n_envs for collector in self._collectors)
        groups = tuple(c.begin(stream_key(key, "first reset", i)) for i, c in enumerate(self._collectors))
        algorithm = self.agent.algorithm.init(stream_key(key, "weights"), sizes)
        return TrainState(algorithm, self.agent.normalising.init(), groups, key)

    def _update(self, state: TrainState, update: Array, values: Array) -> tuple[TrainState, dict[str, Array]]:
        policy = self.agent.policy(state)
        groups, rollouts = [], []
        for index, (collector, group) in enumerate(zip(self._collectors, state.groups, strict=True)):
            key = stream_key(state.key, "collect", index, update)
            group, rollout = collector.collect(policy, group, key)
            groups.append(group)
            rollouts.append(rollout)
        hp = {name: values[i] for i, name in enumerate(self._hp_names)}
        return self.agent.learn(state._replace(groups=tuple(groups)), tuple(rollouts), hp, update)

    def _updates(
        self, state: TrainState, first: Array, table: Array, k: Array, stop_return: Array
    ) -> tuple[TrainState, Array, Array]:
        shapes = jax.eval_shape(self._update, state, first, table[0])[1]
        self._names = sorted(shapes)
        rows = jnp.zeros((self.most, len(self._names)), jnp.float32)

        def body(now: tuple[Tree, ...]) -> tuple[Tree, ...]:
            i, state, rows, _ = now
            state, metrics = self._update(state, first + i.astype(jnp.uint32), table[i])
            row = jnp.stack([metrics[name].astype(jnp.float32) for name in self._names])
            return i + 1, state, rows.at[i].set(row), window_reached(metrics, stop_return)

        begin = (jnp.int32(0), state, rows, jnp.bool_(False))
        done, state, rows, _ = lax.while_loop(lambda now: (now[0] < k) & ~now[3], body, begin)
        return state, rows, done


class HostProgram:
    """One update per call: collect from host envs, then learn in one compiled call."""

    most = 1

    def __init__(self, agent: Agent, collectors: tuple[HostCollector, ...], hp_names: list[str]) -> None:
        self.agent, self._collectors, self._hp_names = agent, collectors, hp_names
        self._init = jax.jit(self._begin)
        self._learn = jax.jit(self._pack(agent.learn))
        self._collect_key = jax.jit(lambda key, group, update: stream_key(key, "collect", group, update))
        self._names: list[str] = []

    def start(self, seed: int) -> TrainState:
        groups = tuple(collector.begin() for collector in self._collectors)
        key = run_key(seed)
        algorithm, normaliser = self._init(key)
        return TrainState(algorithm, normaliser, groups, key)

    def advance(self, state: TrainState, first: int, hp: Array, stop_return: float) -> Advanced:
        del stop_return  # one update a call: whoever watches the rows can stop in time
        began = time.perf_counter()
        policy, update = self.agent.policy(state), np.uint32(first)
        groups, rollouts = [], []
        for index, (collector, group) in enumerate(zip(self._collectors, state.groups, strict=True)):
            key = self._collect_key(state.key, np.uint32(index), update)
            group, rollout = collector.collect(policy, group, key)
            groups.append(group)
            rollouts.append(rollout)
        collected = time.perf_counter()
        values = dict(zip(self._hp_names, np.asarray(hp[0], np.float32), strict=True))
        # What the envs and transforms hold stays on the host; only the statistics go through the compiled call.
        slim = state._replace(groups=tuple(g._replace(transforms=(), obs=(), fresh=(), carry=()) for g in groups))
        learnt, packed = self._learn(slim, tuple(rollouts), values, update)
        kept = zip(groups, learnt.groups, strict=True)
        state = learnt._replace(
            groups=tuple(g._replace(episodes=new.episodes, discounted=new.discounted) for g, new in kept)
        )
        row: Row = dict(zip(self._names, np.asarray(packed).tolist(), strict=True))
        row["time/collect"] = collected - began
        row["time/update"] = time.perf_counter() - collected
        return Advanced(state, [row])

    def save(self, state: TrainState) -> Tensors:
        groups = (g._replace(env=c.engine.snapshot()) for g, c in zip(state.groups, self._collectors, strict=True))
        return to_tensors(state._replace(groups=tuple(groups)))

    def load(self, state: TrainState, tensors: Tensors) -> tuple[TrainState, list[str]]:
        # How long the envs' action logs are depends on the moment, so no template knows their shape.
        envs, rest = split_tensors(tensors, [f"groups/{index}/env/" for index in range(len(self._collectors))])
        saved = from_tensors(state, rest)
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

    def _begin(self, key: Array) -> tuple[Tree, Tree]:
        sizes = tuple(collector.engine.n_envs for collector in self._collectors)
        return self.agent.algorithm.init(stream_key(key, "weights"), sizes), self.agent.normalising.init()

    def _pack(self, learn: Callable[..., Any]) -> Callable[..., Any]:
        def packed(*args: Any) -> tuple[TrainState, Array]:
            state, metrics = learn(*args)
            self._names = sorted(metrics)
            return state, jnp.stack([metrics[name].astype(jnp.float32) for name in self._names])

        return packed
