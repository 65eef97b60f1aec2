"""The host trainer: collects from host envs, then learns in one compiled call; one update per call."""

from __future__ import annotations

import time
from collections.abc import Sequence
from copy import copy
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gymlab.core.jax_keys import named_key, run_key, stream_key
from gymlab.core.types import Array, Rollout, Tree
from gymlab.training.agent import Agent
from gymlab.training.collector_host import HostCollector
from gymlab.training.compile_time import compile_seconds
from gymlab.training.named_tensors import Tensors, from_tensors, split_tensors, to_tensors
from gymlab.training.nonfinite import BadUpdate, NumericalFault, find_nonfinite
from gymlab.training.state import GroupState, TrainState, match_skipped_updates
from gymlab.training.trainer import CALL_SECONDS, Advanced, UpdateMetrics, pack_metrics
from gymlab.training.update_histograms import HistogramSchedule


class HostTrainer:
    """One update per call: collect from host envs, then learn in one compiled call."""

    most = 1
    call_seconds = CALL_SECONDS
    called: float | None = None

    def __init__(
        self,
        agent: Agent,
        collectors: tuple[HostCollector, ...],
        hp_names: list[str],
        looks: HistogramSchedule | None = None,
    ) -> None:
        self.agent = agent
        self._collectors = collectors
        self.hp_names = hp_names
        self._looks = looks or HistogramSchedule()
        self._init = jax.jit(self._begin)
        self._learn = jax.jit(self._learn_packed)
        self._collect_key = jax.jit(lambda key, group, update: stream_key(key, "collect", group, update))
        self._names: list[str] = []

    def again(self, engines: Sequence[Any], looks: HistogramSchedule) -> HostTrainer:
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
        learnt, numbers, look = self._learn(slim, rollouts, values, np.uint32(first), looks)
        *metrics, fault = np.asarray(numbers).tolist()
        if fault:
            bad = BadUpdate(first, state, rollouts, values, learnt)
            raise NumericalFault(bad, Advanced(state, []), find_nonfinite(self.agent, bad))
        kept = zip(groups, learnt.groups, strict=True)
        state = learnt._replace(
            groups=tuple(g._replace(episodes=new.episodes, discounted=new.discounted) for g, new in kept)
        )
        row = UpdateMetrics(zip(self._names, metrics, strict=True))
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
        return self.agent.algorithm.init(weights, sizes), self.agent.normalising.init()

    def _learn_packed(self, *args: Any) -> tuple[TrainState, Array, Array | None]:
        """The state after learning, and the metrics with the fault behind them: one array is quicker to read."""
        state, metrics, fault, look = self.agent.learn(*args)
        self._names[:] = metrics
        fault = (fault | ~self.agent.sound(state)).astype(jnp.float32)
        return state, pack_metrics(metrics, fault[None]), look
