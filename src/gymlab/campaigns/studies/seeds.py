"""Seeds study: the same recipe with distinct seeds for each env, with shared seeds, and with one fixed seed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from gymlab.core.errors import UserError
from gymlab.core.rng import episode_seed
from gymlab.core.statistics import Estimate, difference, estimate
from gymlab.envs.gymnasium_types import Env, EnvWrapper, Info, ResetResult
from gymlab.envs.registry import FRESH_PER_EPISODE
from gymlab.recipes.resolve import amend
from gymlab.recipes.schema import Recipe
from gymlab.session.session import Options
from gymlab.session.start import train
from gymlab.training.events import Control, Evaluated, Event, Feature

ARMS = {
    "distinct": "every env has seeds of its own",
    "shared": "all envs have the same seeds, a new one for each episode",
    "fixed": "all envs have one seed for all episodes",
}


class SameSeeds(EnvWrapper, RecordConstructorArgs):
    """Resets with the same seeds in every env."""

    training_only = True

    def __init__(self, env: Env, seed: int = 0, *, fixed: bool = False) -> None:
        """`fixed`: every episode has the first one's seed."""
        RecordConstructorArgs.__init__(self, seed=seed, fixed=fixed)
        gymnasium.Wrapper.__init__(self, env)
        self._seed = seed
        self._fixed = fixed
        self._episode = 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> ResetResult:
        del seed
        shared = episode_seed(self._seed, 0, self._episode)
        self._episode += not self._fixed
        return self.env.reset(seed=shared, options=options)


class ArmRun(NamedTuple):
    """One run of one arm: unshaped returns of its evaluations."""

    arm: str
    seed: int
    final: float  # greedy, the last
    on_the_way: float  # sampled, mean of all evaluations: high if learning was quick


class ArmComparison(NamedTuple):
    """Interquartile means of one arm with bootstrap intervals, and the gain of distinct seeds over it."""

    arm: str
    final: Estimate
    on_the_way: Estimate
    final_gain: Estimate | None
    on_the_way_gain: Estimate | None


def study(recipe: Recipe, *, runs: int, arms: Sequence[str] = tuple(ARMS)) -> Iterator[ArmRun]:
    """Train every arm with every seed, one after the other, in temporary folders."""
    if recipe.env.id in FRESH_PER_EPISODE:
        raise UserError(f"{recipe.env.id} makes a new env for every episode: its envs cannot share seeds")
    for seed in range(runs):
        for arm in arms:
            with tempfile.TemporaryDirectory(prefix="gymlab-study-") as folder:
                yield _train_arm(arm_recipe(recipe, arm, seed), arm, seed, Path(folder))


def arm_recipe(recipe: Recipe, arm: str, seed: int) -> Recipe:
    """The recipe of one arm; all arms use the same host engine, so that they differ in their seeds alone."""
    same = f"{SameSeeds.__module__}:{SameSeeds.__name__}"
    wrapper = f"env.wrappers+=[{{'{same}': {{seed: {seed}, fixed: {str(arm == 'fixed').lower()}}}}}]"
    changes = ["engine=gymnasium", "vectorization=sync", "eval.mode=sync", "video.clips=[]", "metrics.statistics=basic"]
    return amend(recipe, [*changes, *([] if arm == "distinct" else [wrapper])])


def compare_arms(trained: Sequence[ArmRun]) -> list[ArmComparison]:
    """Each arm's figures, and the gain of the first arm over it."""
    arms = list(dict.fromkeys(run.arm for run in trained))

    def figures(arm: str, name: str) -> list[float]:
        return [getattr(run, name) for run in trained if run.arm == arm]

    def gain(arm: str, name: str) -> Estimate | None:
        return None if arm == arms[0] else difference(figures(arms[0], name), figures(arm, name))

    return [
        ArmComparison(
            arm,
            estimate(figures(arm, "final")),
            estimate(figures(arm, "on_the_way")),
            gain(arm, "final"),
            gain(arm, "on_the_way"),
        )
        for arm in arms
    ]


def _train_arm(recipe: Recipe, arm: str, seed: int, folder: Path) -> ArmRun:
    recorder = _EvaluationRecorder()
    train(recipe, Options(seed=seed, full_budget=True), folder, watchers=[recorder])
    sampled = [event.evaluation.sampled.mean for event in recorder.evaluated]
    return ArmRun(arm, seed, recorder.evaluated[-1].evaluation.greedy.mean, float(np.mean(sampled)))


class _EvaluationRecorder(Feature):
    name = "study"

    def __init__(self) -> None:
        self.evaluated: list[Evaluated] = []

    def __call__(self, event: Event, control: Control) -> None:
        del control
        if isinstance(event, Evaluated):
            self.evaluated.append(event)
