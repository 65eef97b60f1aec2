"""Scoring the policies of runs, finished or running: any checkpoints, on any evaluation seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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
from gymlab.runs.manifest import read_manifest
from gymlab.runs.paths import RunPaths
from gymlab.session.build import Parts, build
from gymlab.session.evaluator.parts import Scorer, open_scorer
from gymlab.training.evaluation import WAYS, Abandon, EvalScore, Way, counted_episodes, exact_return
from gymlab.training.named_tensors import from_tensors
from gymlab.training.state import Policy


def load_run(paths: RunPaths, which: str) -> tuple[Parts, Policy, str]:
    """A run's parts, the policy of one of its checkpoints, and that checkpoint's name."""
    recipe = read_run_recipe(paths.recipe)
    loaded = load_checkpoint(paths, which)
    parts = build(recipe, read_manifest(paths)["seed"])
    template = parts.agent.policy(parts.program.start(parts.seed))
    return parts, from_tensors(template, loaded.policy), loaded.path.name


@dataclass(frozen=True)
class Exam:
    """What a policy is put through: so many episodes of each way of acting, from each evaluation seed."""

    episodes: int = 100
    seeds: tuple[int, ...] = (7,)
    ways: tuple[Way, ...] = WAYS


class Pooled(NamedTuple):
    """The episodes of one way of acting from all seeds together; intervals are 95 % bootstrap ones."""

    mean: Estimate
    iqm: Estimate
    std: float
    n: int
    length: float
    truncated: int
    by_seed: tuple[float, ...]  # the mean return from each

    def as_json(self) -> dict[str, Any]:
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


class Scored(NamedTuple):
    """What a checkpoint is worth."""

    run_id: str
    recipe: str
    checkpoint: str
    roles: tuple[str, ...]  # best, last
    exam: Exam
    scores: dict[Way, Pooled]
    exact: float | None  # the greedy policy's true expected return, for envs that are a transition table
    episode_seeds: dict[Way, list[list[int]]]  # of every episode, by seed: what the env's reset was given

    def as_json(self) -> dict[str, Any]:
        scores: dict[str, Any] = {way: pooled.as_json() for way, pooled in self.scores.items()}
        if self.exact is not None:
            scores["exact"] = self.exact
        return {
            "run_id": self.run_id,
            "checkpoint": self.checkpoint,
            "roles": list(self.roles),
            "eval": scores,
            "recipe": self.recipe,
            "episodes": self.exam.episodes,
            "seeds": list(self.exam.seeds),
            "episode_seeds": self.episode_seeds,
        }


Watch = Callable[[str, int], Abandon]  # (RUN/CHECKPOINT, evaluation seed) -> told of every step


def score_run(
    paths: RunPaths, checkpoints: Sequence[str], exam: Exam, watch: Watch = lambda *_: lambda: False
) -> Iterator[Scored]:
    """Put checkpoints of a run through the same exam, one after the other."""
    scorer = open_scorer(read_run_recipe(paths.recipe))
    blank = scorer.blank()
    max_envs = scorer.recipe.eval.max_envs
    index = read_index(paths)
    for which in checkpoints:
        loaded = load_checkpoint(paths, which, with_state=False)
        policy = from_tensors(blank, loaded.policy)
        name = loaded.path.name
        found = [
            scorer.evaluator.evaluate(
                policy,
                episodes=exam.episodes,
                seed=seed,
                max_envs=max_envs,
                abandon=watch(f"{paths.run_id}/{name}", seed),
                ways=exam.ways,
            )
            for seed in exam.seeds
        ]
        yield Scored(
            paths.run_id,
            scorer.recipe.name,
            name,
            tuple(role for role in ("best", "last") if index[role] == name),
            exam,
            {way: pooled([evaluation.of(way) for evaluation in found]) for way in exam.ways},
            exact_score(scorer, policy) if "greedy" in exam.ways else None,
            {way: [_seeds(exam.episodes, max_envs, way, seed) for seed in exam.seeds] for way in exam.ways},
        )


def pooled(scores: Sequence[EvalScore]) -> Pooled:
    """Several evaluations of one policy as one: each seed's episodes are resampled within themselves."""
    groups = [np.array(score.returns) for score in scores]
    returns = np.concatenate(groups)
    return Pooled(
        mean=stratified(groups, mean),
        iqm=stratified(groups, iqm),
        std=float(returns.std()),
        n=len(returns),
        length=float(np.average([score.length for score in scores], weights=[score.n for score in scores])),
        truncated=sum(score.truncated for score in scores),
        by_seed=tuple(score.mean for score in scores),
    )


def _seeds(episodes: int, max_envs: int, way: Way, seed: int) -> list[int]:
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
    obs = Masked(states, port.action_mask(states)) if scorer.spaces.masked else states
    carry = agent.algorithm.initial_carry(len(states))
    decision = jax.jit(agent.act)(policy, obs, carry, jax.random.key(0), jnp.ones(len(states), bool))
    return exact_return(port, np.asarray(decision.action))
