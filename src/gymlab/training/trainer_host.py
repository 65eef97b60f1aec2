"""The host trainer: collects from host envs, then learns in one compiled call; one update per call."""

from __future__ import annotations

import time
from collections.abc import Sequence
from copy import copy
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from gymlab.core.clock import Clock
from gymlab.core.jax_keys import named_key, run_key, stream_key
from gymlab.core.types import Array, Rollout, Tree
from gymlab.envs.engines.base import HostEngine
from gymlab.experience.replay_buffer import ReplayBuffer
from gymlab.training.agent import Agent
from gymlab.training.collector_host import HostCollector
from gymlab.training.compile_time import compile_seconds
from gymlab.training.named_tensors import Tensors, from_tensors, split_tensors, to_tensors
from gymlab.training.nonfinite import BadUpdate, NumericalFault, find_nonfinite
from gymlab.training.state import GroupState, TrainState, match_skipped_updates
from gymlab.training.trainer import (
    CALL_SECONDS,
    Advanced,
    UpdateMetrics,
    hyperparameters,
    learning_clock,
    pack_metrics,
)
from gymlab.training.update_histograms import HistogramSchedule


class HostTrainer:
    """One update per call: collect from host envs, then learn in one compiled call."""

    most = 1
    call_seconds = CALL_SECONDS
    last_call_seconds: float | None = None

    def __init__(
        self,
        agent: Agent,
        collectors: tuple[HostCollector, ...],
        hp_names: list[str],
        schedule: HistogramSchedule | None = None,
    ) -> None:
        self.agent = agent
        self._collectors = collectors
        self.hp_names = hp_names
        self._schedule = schedule or HistogramSchedule()
        self._init = jax.jit(self._begin)
        self._learn = jax.jit(self._learn_packed, donate_argnums=0)
        self._collect_key = jax.jit(lambda key, group, update: stream_key(key, "collect", group, update))
        self._names: list[str] = []

    def again(self, engines: Sequence[HostEngine], schedule: HistogramSchedule) -> HostTrainer:
        """A trainer for another run, with its own envs, that shares the compiled code."""
        other = copy(self)
        other._schedule = schedule
        other._collectors = tuple(c.again(engine) for c, engine in zip(self._collectors, engines, strict=True))
        return other

    def start(self, seed: int, *, ahead: bool = False) -> TrainState:
        del ahead  # what is compiled depends on the envs' observations
        groups = tuple(c.begin(named_key(seed, "first reset", i)) for i, c in enumerate(self._collectors))
        algorithm, normaliser = self._init(named_key(seed, "weights"))
        experience = self.agent.initial_experience(groups, tuple(c.n_steps for c in self._collectors))
        return TrainState(algorithm, normaliser, groups, run_key(seed), self.agent.no_skips(), experience)

    def materialize(self, state: TrainState) -> TrainState:
        return state

    def advance(self, state: TrainState, clock: Clock, hp: Array, stop_return: float) -> Advanced:
        del stop_return  # one update a call: features can stop the run after each
        began = time.perf_counter()
        compiled = compile_seconds()
        groups, rollouts = self._collect(state, cast("Array", np.uint32(clock.updates)))
        collected = time.perf_counter()
        compiled_to_collect = compile_seconds() - compiled
        values = hyperparameters(self.hp_names, np.asarray(hp[0], np.float32), learning_clock(clock))
        # The state of envs and transforms stays on the host; only statistics go through the compiled call.
        slim = state._replace(groups=tuple(g._replace(transforms=(), obs=(), fresh=()) for g in groups), experience=())
        measure = self._schedule.at(clock.updates, 1)[0]
        learnt, numbers, packed = self._learn(state.experience, slim, rollouts, values, measure)
        *metrics, fault = np.asarray(numbers).tolist()
        if fault:
            state = state._replace(experience=learnt.experience)  # the buffers were donated
            bad = BadUpdate(clock, state, rollouts, values, learnt)
            raise NumericalFault(bad, Advanced(state, []), find_nonfinite(self.agent, bad))
        pairs = zip(groups, learnt.groups, strict=True)
        state = learnt._replace(
            groups=tuple(g._replace(episodes=new.episodes, discounted=new.discounted) for g, new in pairs)
        )
        row = UpdateMetrics(zip(self._names, metrics, strict=True))
        if measure and packed is not None:
            values_by_name, row.histograms = self.agent.layout.unpack(np.asarray(packed))
            row |= values_by_name
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
        # The length of the envs' action logs varies, so `state` has no template for them.
        envs, rest = split_tensors(tensors, [f"groups/{index}/env/" for index in range(len(self._collectors))])
        saved = from_tensors(state, match_skipped_updates(state, rest))
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
        return self.agent.algorithm.init(weights, sizes), self.agent.initial_normaliser()

    def _learn_packed(
        self, experience: tuple[ReplayBuffer, ...], state: TrainState, *args: Any
    ) -> tuple[TrainState, Array, Array | None]:
        """The state after learning, and metrics and fault packed into one array, which is faster to transfer."""
        result = self.agent.learn(state._replace(experience=experience), *args)
        self._names[:] = result.metrics
        fault = (result.fault | ~self.agent.is_finite(result.state)).astype(jnp.float32)
        return result.state, pack_metrics(result.metrics, fault[None]), result.histograms
