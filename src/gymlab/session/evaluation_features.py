"""The features that judge a policy and act on the verdict: evaluation, best checkpoints, stopping."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from gymlab.features.checkpoint import Checkpoint
from gymlab.features.evaluate_async import EvaluateAside, Goal
from gymlab.features.evaluate_sync import Evaluate
from gymlab.features.stop import Limits, Stop
from gymlab.recipes.schema import Recipe
from gymlab.runs.checkpoints import promote
from gymlab.runs.paths import RunPaths
from gymlab.runs.platform import usable_cores
from gymlab.session.build import Parts
from gymlab.session.evaluator.client import NICE, ExaminerProcess
from gymlab.session.evaluator.parts import blank_policy
from gymlab.training.events import Feature
from gymlab.training.state import TrainState
from gymlab.training.trainer_compiled import CompiledTrainer

ASYNC_FROM = 500_000  # env_steps of budget: below, a run is over before a second process has helped


def evaluates_aside(recipe: Recipe) -> bool:
    """Whether evaluation has a process of its own. Decided by the recipe alone: it moves where a run stops."""
    if recipe.eval.mode != "auto":
        return recipe.eval.mode == "async"
    budget = recipe.budget.count * (recipe.n_envs if recipe.budget.clock == "vec_steps" else 1)
    return budget >= ASYNC_FROM


def sharing(recipe: Recipe) -> dict[str, Any]:
    """How trainer and evaluator share the machine, for the manifest: every core is for both, the trainer goes first.

    Measured on two cores: docs/evaluation.md. With fewer cores than the trainer its sums would be rounded differently.
    """
    cores = usable_cores()
    aside = {"evaluator_cores": cores, "pinned": False, "nice": NICE} if evaluates_aside(recipe) else {}
    return {"mode": "async" if aside else "sync", "trainer_cores": cores, **aside}


def goal_of(recipe: Recipe) -> float | None:
    """The mean return a run is after; None where none is known."""
    return recipe.stop.eval_return if recipe.stop.eval_return is not None else recipe.env.solved_at


@contextmanager
def judging(
    parts: Parts, state: TrainState, paths: RunPaths, cores: tuple[int, ...] | None = None
) -> Iterator[list[Feature]]:
    """The judging features of a run that begins with `state`; leaving ends what they started.

    `cores`: for evaluation, if not all of ours.
    """
    recipe = parts.recipe
    stop = parts.recipe.stop
    seed = parts.recipe.eval.seed
    wanted = None if parts.full_budget else goal_of(recipe)
    period = parts.period(recipe.eval.every, recipe.eval.warmup)
    last = parts.plan.updates
    with ExitStack() as leaving:
        evaluate: Feature
        aside = evaluates_aside(recipe)
        goal = Goal(wanted if aside and stop.confirm else None, stop.solved_by)
        shared = parts.examiners
        here = (blank_policy(parts.agent, recipe.n_envs), parts.evaluate) if aside or shared else None
        desk = None if shared is None or here is None else shared.desk(recipe, goal, here)
        if aside:
            assert here is not None
            evaluate = EvaluateAside(
                desk or leaving.enter_context(ExaminerProcess(recipe, goal, here, cores)),
                period,
                goal,
                seed=seed,
                last_update=last,
                checkpoint_at=lambda env_steps: paths.checkpoints / str(env_steps),
                from_return=_from_return(recipe),
            )
        else:
            run = parts.evaluate if desk is None else desk.evaluate
            if desk is None and isinstance(parts.program, CompiledTrainer):
                leaving.callback(_preparing(parts, parts.program, state).join)
            evaluate = Evaluate(run, period, seed=seed, last_update=last, from_return=_from_return(recipe))
        yield [
            evaluate,
            Checkpoint(
                parts.period(recipe.checkpoints.every),
                stop.solved_by,
                promote=lambda env_steps: promote(paths, env_steps),
            ),
            Stop(_limits(recipe, wanted, full_budget=parts.full_budget)),
        ]


def _preparing(parts: Parts, program: CompiledTrainer, state: TrainState) -> threading.Thread:
    """Compiles what evaluation needs while the updates are compiled and the first ones made, both without Python.

    What only the last evaluation needs waits for the updates: they want every core until they are compiled.
    """
    settings = parts.recipe.eval
    policy = parts.agent.policy(state)
    obs = state.groups[0].obs

    def prepare() -> None:
        with suppress(Exception):  # what is wrong is told where it matters: by the evaluation
            parts.evaluator.prepare(policy, obs, settings.episodes, settings.max_envs)
            program.wait_compiled()
            parts.evaluator.prepare(policy, obs, settings.final_episodes, settings.max_envs)

    thread = threading.Thread(target=prepare, name="evaluation is prepared")
    thread.start()
    return thread


def _limits(recipe: Recipe, wanted: float | None, *, full_budget: bool) -> Limits:
    stop = recipe.stop
    if full_budget:
        return Limits(solved_by=stop.solved_by)
    given = {"plateau": stop.plateau, "seconds": stop.seconds}
    return Limits(
        eval_return=wanted,
        train_return=stop.train_return,
        solved_by=stop.solved_by,
        confirm=stop.confirm,
        plateau_delta=stop.plateau_delta,
        **{name: float(value) for name, value in given.items() if value is not None},
    )


def _from_return(recipe: Recipe) -> float | None:
    """The training return from which evaluation is worth its time; a share of the way from the far side of zero."""
    goal = goal_of(recipe)
    share = recipe.eval.start_at
    return None if goal is None or share is None else goal - (1 - share) * abs(goal)
