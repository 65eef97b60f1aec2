"""Evaluates checkpoints of runs, finished or running, on any seeds: what `gymlab eval` does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypedDict

import jax
import jax.numpy as jnp
import numpy as np

from gymlab.core.rng import episode_seed
from gymlab.core.statistics import Estimate, iqm, mean, stratified
from gymlab.core.types import Masked
from gymlab.envs.ports.registry import find_port
from gymlab.envs.ports.tabular import Tabular
from gymlab.envs.registry import resolve_id
from gymlab.recipes.resolve import read_run_recipe
from gymlab.runs.checkpoints import load_checkpoint, read_index
from gymlab.runs.paths import RunPaths
from gymlab.session.evaluator.scorer import Scorer, open_scorer
from gymlab.training.evaluation import WAYS, Abandon, EvalScore, Way, counted_episodes, exact_return
from gymlab.training.named_tensors import from_tensors
from gymlab.training.state import Policy


@dataclass(frozen=True)
class EvaluationProtocol:
    """How checkpoints are evaluated: episodes per evaluation seed and way of acting."""

    episodes: int = 100
    seeds: tuple[int, ...] = (7,)
    ways: tuple[Way, ...] = WAYS


class PooledScore(NamedTuple):
    """The score over the episodes of all seeds, for one way of acting; with 95 % bootstrap intervals."""

    mean: Estimate
    iqm: Estimate
    std: float
    n: int
    length: float
    truncated: int
    by_seed: tuple[float, ...]  # the mean return from each

    def as_json(self) -> PooledScoreRecord:
        return {
            "mean": self.mean.value,
            "std": self.std,
            "n": self.n,
            "low": self.mean.low,
            "high": self.mean.high,
            "iqm": self.iqm.value,
            "iqm_low": self.iqm.low,
            "iqm_high": self.iqm.high,
            "length": self.length,
            "truncated": self.truncated,
            "by_seed": list(self.by_seed),
        }


class PooledScoreRecord(TypedDict):
    """A `PooledScore` as JSON."""

    mean: float
    std: float
    n: int
    low: float
    high: float
    iqm: float
    iqm_low: float
    iqm_high: float
    length: float
    truncated: int
    by_seed: list[float]


class ScoresRecord(TypedDict, total=False):
    """The scores of a checkpoint as JSON."""

    greedy: PooledScoreRecord
    sampled: PooledScoreRecord
    exact: float


class CheckpointScoreRecord(TypedDict):
    """A `CheckpointScore` as JSON: what `gymlab eval --json` prints."""

    run_id: str
    checkpoint: str
    roles: list[str]
    eval: ScoresRecord
    eval_source: str  # what the episodes were played on
    recipe: str
    episodes: int
    seeds: list[int]
    episode_seeds: dict[Way, list[list[int]]]


class CheckpointScore(NamedTuple):
    """A checkpoint's scores and how they were obtained."""

    run_id: str
    recipe: str
    checkpoint: str
    roles: tuple[str, ...]  # best, last
    protocol: EvaluationProtocol
    scores: dict[Way, PooledScore]
    exact: float | None  # the greedy policy's true expected return, for envs that are a transition table
    episode_seeds: dict[Way, list[list[int]]]  # of every episode, by seed: the seed passed to the env's reset

    def as_json(self) -> CheckpointScoreRecord:
        scores: ScoresRecord = {}
        for way, pooled in self.scores.items():
            scores[way] = pooled.as_json()
        if self.exact is not None:
            scores["exact"] = self.exact
        return {
            "run_id": self.run_id,
            "checkpoint": self.checkpoint,
            "roles": list(self.roles),
            "eval": scores,
            "eval_source": "gymnasium",
            "recipe": self.recipe,
            "episodes": self.protocol.episodes,
            "seeds": list(self.protocol.seeds),
            "episode_seeds": self.episode_seeds,
        }


Progress = Callable[[str, int], Abandon]  # (RUN/CHECKPOINT, evaluation seed) -> called at every step


def evaluate_checkpoints(
    paths: RunPaths,
    checkpoints: Sequence[str],
    protocol: EvaluationProtocol,
    progress: Progress = lambda *_: lambda: False,
) -> Iterator[CheckpointScore]:
    """Evaluate checkpoints of a run by the same protocol, one after the other."""
    scorer = open_scorer(read_run_recipe(paths.recipe))
    template = scorer.policy_template()
    max_envs = scorer.recipe.eval.max_envs
    index = read_index(paths)
    for which in checkpoints:
        loaded = load_checkpoint(paths, which, with_state=False)
        policy = from_tensors(template, loaded.policy)
        name = loaded.path.name
        found = [
            scorer.evaluator.evaluate(
                policy,
                episodes=protocol.episodes,
                seed=seed,
                max_envs=max_envs,
                abandon=progress(f"{paths.run_id}/{name}", seed),
                ways=protocol.ways,
            )
            for seed in protocol.seeds
        ]
        yield CheckpointScore(
            paths.run_id,
            scorer.recipe.name,
            name,
            tuple(role for role in ("best", "last") if index[role] == name),
            protocol,
            {way: pool_scores([evaluation.of(way) for evaluation in found]) for way in protocol.ways},
            exact_score(scorer, policy) if "greedy" in protocol.ways else None,
            {
                way: [_episode_seeds(protocol.episodes, max_envs, way, seed) for seed in protocol.seeds]
                for way in protocol.ways
            },
        )


def pool_scores(scores: Sequence[EvalScore]) -> PooledScore:
    """Several evaluations of one policy as one: each seed's episodes are resampled within themselves."""
    groups = [np.array(score.returns) for score in scores]
    returns = np.concatenate(groups)
    return PooledScore(
        mean=stratified(groups, mean),
        iqm=stratified(groups, iqm),
        std=float(returns.std()),
        n=len(returns),
        length=float(np.average([score.length for score in scores], weights=[score.n for score in scores])),
        truncated=sum(score.truncated for score in scores),
        by_seed=tuple(score.mean for score in scores),
    )


def _episode_seeds(episodes: int, max_envs: int, way: Way, seed: int) -> list[int]:
    return [
        episode_seed(seed, env, episode, evaluation=True) for env, episode in counted_episodes(episodes, max_envs, way)
    ]


def exact_score(scorer: Scorer, policy: Policy) -> float | None:
    """The greedy policy's expected return from the env's own table; None where there is no table or it is wrapped."""
    env = scorer.recipe.env
    agent = scorer.agent
    resolved = resolve_id(env.id)
    port = find_port(resolved.id, {**resolved.kwargs, **env.kwargs}, env.max_episode_steps)
    if not isinstance(port, Tabular) or env.wrappers:
        return None
    states = jnp.arange(int(port.observation_space.n), dtype=jnp.int32)
    mask = port.action_mask(states)
    obs = Masked(states, mask) if scorer.spaces.masked and mask is not None else states
    carry = agent.algorithm.initial_carry(len(states))
    decision = jax.jit(agent.act)(policy, obs, carry, jax.random.key(0), jnp.ones(len(states), bool))
    return exact_return(port, np.asarray(decision.action))
