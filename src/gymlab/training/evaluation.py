"""Evaluation of a policy on the Gymnasium env: greedy and sampled side by side, with a quota of episodes per env.

A quota per env keeps short episodes from being over-represented, as they are in the first n episodes that finish.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NotRequired, Protocol, TypedDict, cast, get_args

import jax
import numpy as np

from gymlab.core.arrays import reset_carry
from gymlab.core.format import format_episodes
from gymlab.core.jax_keys import named_key, named_key_words, stream_key, wrap_key
from gymlab.core.statistics import estimate, iqm, mean
from gymlab.core.types import Array, Spaces, Tree, VecStep
from gymlab.envs.ports.tabular import Tabular
from gymlab.envs.transform import Transform, transformed
from gymlab.networks.distributions import to_env_action
from gymlab.training.state import Act, apply_transforms, transform_action

if TYPE_CHECKING:
    from gymlab.training.evaluation_compiled import CompiledEvaluator


class EvaluationEngine(Protocol):
    """What evaluation needs of an engine: a `HostEngine` has it."""

    @property
    def spaces(self) -> Spaces: ...

    @property
    def n_envs(self) -> int: ...

    def reset(self) -> VecStep: ...

    def step(self, action: Array, active: np.ndarray) -> VecStep:
        """One step of the `active` envs: the others keep their observation and are paid nothing."""
        ...

    def close(self) -> None: ...


Abandon = Callable[[], bool]  # called before every step; True raises `Abandoned`
Way = Literal["greedy", "sampled"]  # of acting
WAYS: tuple[Way, ...] = get_args(Way)
Source = Literal["compiled", "gymnasium"]  # what the episodes were played on
EngineFactory = Callable[[int, int], EvaluationEngine]  # (n_envs, seed) -> a host engine for evaluation
RESAMPLES = 2000  # of the bootstrap
KEYS_AT_ONCE = 256


class Abandoned(Exception):
    """An evaluation was abandoned; it has no result."""


class EvalScoreRecord(TypedDict, total=False):
    """An `EvalScore` as JSON."""

    mean: float
    std: float
    n: int
    length: float
    truncated: int
    reward_per_step: float
    low: float
    high: float
    iqm: float
    returns: Sequence[float]


class EvaluationRecord(TypedDict):
    """An `Evaluation` as JSON, with all fields."""

    greedy: EvalScoreRecord
    sampled: EvalScoreRecord
    seed: int
    source: NotRequired[Source]


class EvalScore(NamedTuple):
    """Returns (of the env's own reward) of one way of acting."""

    mean: float
    std: float
    n: int  # episodes
    length: float
    truncated: int  # episodes that a time limit ended
    reward_per_step: float
    low: float = math.nan  # the 95 % bootstrap interval of the mean
    high: float = math.nan
    iqm: float = math.nan  # interquartile mean
    returns: tuple[float, ...] = ()  # of every episode, env after env

    def as_json(self) -> dict[str, float]:
        return {name: getattr(self, name) for name in ("mean", "std", "n", "low", "high", "iqm")}


class Evaluation(NamedTuple):
    greedy: EvalScore
    sampled: EvalScore
    seed: int
    source: Source = "gymnasium"

    @property
    def episodes(self) -> str:
        """How many episodes of what, for people."""
        return format_episodes(self.greedy.n, self.source)

    def as_json(self) -> dict[str, dict[str, float]]:
        return {"greedy": self.greedy.as_json(), "sampled": self.sampled.as_json()}

    def to_json(self) -> EvaluationRecord:
        """All fields, for `from_json`."""
        greedy, sampled = (cast("EvalScoreRecord", self.of(way)._asdict()) for way in WAYS)
        return {"greedy": greedy, "sampled": sampled, "seed": self.seed, "source": self.source}

    @classmethod
    def from_json(cls, saved: EvaluationRecord) -> Evaluation:
        both = ({**saved[way], "returns": tuple(saved[way].get("returns", ()))} for way in WAYS)
        greedy, sampled = (EvalScore(**cast("dict[str, Any]", score)) for score in both)
        return cls(greedy, sampled, saved["seed"], saved.get("source", "gymnasium"))

    def of(self, way: Way) -> EvalScore:
        return self.greedy if way == "greedy" else self.sampled

    def judged_by(self, mode: str) -> float:
        """The mean return that decides: greedy, sampled, or (both) the lower of them."""
        means = {"greedy": self.greedy.mean, "sampled": self.sampled.mean}
        return min(means.values()) if mode == "both" else means[mode]


class EvalEpisode(NamedTuple):
    total: float
    length: int
    truncated: bool


def score(episodes: list[EvalEpisode], reward: float | None = None, steps: int | None = None) -> EvalScore:
    """The score of some episodes; `reward` and `steps` include those of unfinished ones, where there are any."""
    reward = sum(episode.total for episode in episodes) if reward is None else reward
    steps = sum(episode.length for episode in episodes) if steps is None else steps
    if not episodes:
        return EvalScore(math.nan, math.nan, 0, math.nan, 0, reward / max(steps, 1))
    totals = np.array([episode.total for episode in episodes], np.float64)
    likely = estimate(totals, mean, resamples=RESAMPLES)
    return EvalScore(
        mean=float(totals.mean()),
        std=float(totals.std()),
        n=len(episodes),
        length=float(np.mean([episode.length for episode in episodes])),
        truncated=sum(episode.truncated for episode in episodes),
        reward_per_step=reward / max(steps, 1),
        low=likely.low,
        high=likely.high,
        iqm=float(iqm(totals)),
        returns=tuple(totals.tolist()),
    )


def episode_quota(episodes: int, n_envs: int) -> np.ndarray:
    """Episodes of each env."""
    return np.array([len(part) for part in np.array_split(np.arange(episodes), n_envs)])


def counted_episodes(episodes: int, max_envs: int, way: Way) -> list[tuple[int, int]]:
    """(env index, episode index) of every episode that counts for one way of acting, in the order of its returns."""
    quota = episode_quota(episodes, min(episodes, max_envs))
    first = len(quota) * WAYS.index(way)
    return [(first + env, episode) for env, count in enumerate(quota) for episode in range(count)]


class Evaluator:
    """Evaluates policies with a compiled forward pass, on envs made for each evaluation."""

    def __init__(
        self,
        make_engine: EngineFactory,
        transforms: tuple[Transform, ...],
        act: Act,
        initial_carry: Callable[[int], Tree],
        device: jax.Device | None = None,
        compiled: CompiledEvaluator | None = None,
    ) -> None:
        """`device` is where the policy acts; None: where it is. `compiled` makes the periodic evaluations of a port."""
        self.compiled = compiled
        self._make_engine = make_engine
        self._transforms = transforms
        self._initial_carry = initial_carry
        self._device = device
        self._random = any(transform.random for transform in transforms)

        @jax.jit
        def act_step(
            policy: Tree, obs: Tree, carry: Tree, fresh: Array, key: Array, greedy: Array
        ) -> tuple[Array, Tree]:
            carry = reset_carry(carry, fresh, initial_carry(len(greedy)))
            decision = act(policy, obs, carry, wrap_key(key), greedy)
            return decision.action, decision.carry  # log_prob is dropped, so XLA does not compute it

        self._act = act_step

    def prepare(self, policy: Tree, obs: Tree, episodes: int, max_envs: int) -> None:
        """Compile the forward pass that `evaluate` needs; only the shape of `obs` per env matters."""
        n = 2 * min(episodes, max_envs)
        shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct((n, *x.shape[1:]), x.dtype), obs)
        flags = np.zeros(n, bool)
        with self._where():
            (key,) = named_key_words(0, "evaluation", 0, 1)
            self._act.lower(policy, shapes, self._initial_carry(n), flags, key, flags).compile()

    def evaluate(
        self,
        policy: Tree,
        *,
        episodes: int,
        seed: int,
        max_envs: int,
        steps: int | None = None,
        abandon: Abandon = lambda: False,
        ways: Sequence[Way] = WAYS,
    ) -> Evaluation:
        """Run `episodes` of each way of acting (or `steps` steps of each env), with seeds derived from `seed`.

        A way that is left out has no episodes; the other one's envs and scores are the same as with both.
        """
        n = min(episodes, max_envs)
        if abandon():
            raise Abandoned
        engine = self._make_engine(2 * n, seed)
        try:
            quota = np.concatenate([episode_quota(episodes, n) * (way in ways) for way in WAYS])
            with self._where():
                policy = policy if self._device is None else jax.device_put(policy, self._device)
                greedy, sampled = self._play(engine, policy, quota, seed, steps, abandon)
        finally:
            engine.close()
        return Evaluation(greedy, sampled, seed)

    def _where(self) -> AbstractContextManager[object]:
        return nullcontext() if self._device is None else jax.default_device(self._device)

    def _play(
        self, engine: EvaluationEngine, policy: Tree, quota: np.ndarray, seed: int, steps: int | None, abandon: Abandon
    ) -> tuple[EvalScore, EvalScore]:
        """The first half of the envs acts greedily, the second samples; an env stops once its quota is full."""
        n = engine.n_envs
        greedy = np.arange(n) < n // 2
        key = named_key(seed, "evaluation")
        space = transformed(engine.spaces, self._transforms).action
        states = tuple(transform.init(n) for transform in self._transforms)
        states, step = apply_transforms(self._transforms, states, engine.reset(), key)
        own = None
        carry = self._initial_carry(n)
        active = quota > 0
        t = 0
        total = np.zeros(n)  # of the open episode
        length = np.zeros(n, int)
        reward_sum = np.zeros(n)  # over all episodes
        step_sum = np.zeros(n, int)
        done: list[list[EvalEpisode]] = [[] for _ in range(n)]
        while active.any() and (steps is None or t < steps):
            if abandon():
                raise Abandoned
            if t % KEYS_AT_ONCE == 0:
                keys = named_key_words(seed, "evaluation", t, KEYS_AT_ONCE)
            action, carry = self._act(policy, step.obs, carry, step.fresh, keys[t % KEYS_AT_ONCE], greedy)
            t += 1
            if self._random:
                own = stream_key(key, "transforms", t)
            states, sent = transform_action(self._transforms, states, to_env_action(space, np.asarray(action)), own)
            states, step = apply_transforms(self._transforms, states, engine.step(sent, active), own)
            gained = step.reward * active
            total += gained
            reward_sum += gained
            length += active
            step_sum += active
            for i in np.flatnonzero(active & step.fresh):
                done[i].append(EvalEpisode(float(total[i]), int(length[i]), bool(step.truncated[i])))
                total[i] = 0.0
                length[i] = 0
                active[i] = steps is not None or len(done[i]) < quota[i]

        def half(part: slice) -> EvalScore:
            episodes = [episode for env in done[part] for episode in env]
            return score(episodes, float(reward_sum[part].sum()), int(step_sum[part].sum()))

        return half(slice(0, n // 2)), half(slice(n // 2, n))


def exact_return(table: Tabular, action: Array) -> float:
    """Mean over the start states of the undiscounted return within the time limit; `action` is (S,), one per state."""
    states = np.arange(len(action))
    probability = table.probability[states, action]  # (S, K)
    reward = table.reward[states, action].astype(np.float64)
    successor = table.successor[states, action]
    continues = ~table.terminal[states, action]
    value = np.zeros(len(action))
    for _ in range(table.max_episode_steps):
        value = np.sum(probability * (reward + continues * value[successor]), axis=-1)
    return float(value[table.starts].mean())
