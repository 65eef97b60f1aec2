"""The features of a run that evaluate its policy and act on the score: evaluation, best checkpoints, stopping."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from gymlab.core.clock import Clock
from gymlab.core.types import Json
from gymlab.features.checkpoint import Checkpoint
from gymlab.features.evaluate_async import EvaluateAsync, EvaluationGoal
from gymlab.features.evaluate_sync import EvaluateSync
from gymlab.features.stop import Stop, StopLimits
from gymlab.metrics.catalogue import reproducible
from gymlab.recipes.schema import Recipe
from gymlab.runs.checkpoints import add_late_metrics, folder_of, promote
from gymlab.runs.paths import RunPaths
from gymlab.runs.platform import usable_cores
from gymlab.session.build import Parts
from gymlab.session.evaluator.client import NICE, EvaluatorProcess
from gymlab.session.evaluator.scorer import policy_template
from gymlab.session.startup_tuning import compile_evaluation
from gymlab.training.events import Feature
from gymlab.training.state import TrainState
from gymlab.training.trainer_compiled import CompiledTrainer

ASYNC_FROM = 500_000  # env_steps of budget: shorter runs end before a second process has started


def evaluates_async(recipe: Recipe) -> bool:
    """Whether evaluation has its own process. Depends on the recipe alone, as it affects where a run stops."""
    if recipe.eval.mode != "auto":
        return recipe.eval.mode == "async"
    return recipe.budget_env_steps >= ASYNC_FROM


def core_sharing(recipe: Recipe) -> dict[str, Json]:
    """How trainer and evaluator share the cores, for the manifest: both use all, the trainer has precedence.

    Measured on two cores: docs/evaluation.md. With fewer cores the evaluator would round its sums differently.
    """
    cores = usable_cores()
    evaluator = {"evaluator_cores": cores, "pinned": False, "nice": NICE} if evaluates_async(recipe) else {}
    return {"mode": "async" if evaluator else "sync", "trainer_cores": cores, **evaluator}


def target_return(recipe: Recipe) -> float | None:
    """The mean return at which a run stops; None if there is none."""
    return recipe.stop.eval_return if recipe.stop.eval_return is not None else recipe.env.solved_at


@contextmanager
def evaluation_features(
    parts: Parts, state: TrainState, clock: Clock, paths: RunPaths, cores: tuple[int, ...] | None = None
) -> Iterator[list[Feature]]:
    """The features of a run that starts with `state` at `clock`; on exit their threads and processes end.

    `cores`: for the evaluation process, if not all of this process's.
    """
    recipe = parts.recipe
    stop = recipe.stop
    seed = recipe.eval.seed
    target = None if parts.full_budget else target_return(recipe)
    period = parts.period(recipe.eval.every, recipe.eval.warmup)
    last = parts.plan.last_update(clock)
    with ExitStack() as stack:
        evaluate: Feature
        in_process = not evaluates_async(recipe)
        goal = EvaluationGoal(None if in_process or not stop.confirm else target, stop.solved_by)
        pool = parts.evaluator_pool
        needs_worker = pool is not None or not in_process
        fallback = (policy_template(parts.agent, recipe.n_envs), parts.evaluate) if needs_worker else None
        pooled = None if pool is None or fallback is None else pool.evaluator(recipe, goal, fallback)
        if not in_process:
            assert fallback is not None
            evaluate = EvaluateAsync(
                pooled or stack.enter_context(EvaluatorProcess(recipe, goal, fallback, cores)),
                period,
                goal,
                seed=seed,
                last_update=last,
                checkpoint_at=partial(folder_of, paths),
                from_return=_from_return(recipe),
            )
        else:
            run = parts.evaluate if pooled is None else pooled.evaluate
            if pooled is None and isinstance(parts.program, CompiledTrainer):
                stack.callback(compile_evaluation(parts, parts.program, state).join)
            evaluate = EvaluateSync(run, period, seed=seed, last_update=last, from_return=_from_return(recipe))
        yield [
            evaluate,
            Checkpoint(
                parts.period(recipe.checkpoints.every),
                stop.solved_by,
                promote=lambda clock: promote(paths, int(folder_of(paths, clock).name)),
                add_metrics=lambda clock, values: add_late_metrics(paths, clock, reproducible(values)),
            ),
            Stop(_stop_limits(recipe, target, full_budget=parts.full_budget)),
        ]


def _stop_limits(recipe: Recipe, target: float | None, *, full_budget: bool) -> StopLimits:
    stop = recipe.stop
    if full_budget:
        return StopLimits(solved_by=stop.solved_by)
    optional = {"plateau": stop.plateau, "seconds": stop.seconds}
    return StopLimits(
        eval_return=target,
        train_return=stop.train_return,
        solved_by=stop.solved_by,
        confirm=stop.confirm,
        plateau_delta=stop.plateau_delta,
        **{name: float(value) for name, value in optional.items() if value is not None},
    )


def _from_return(recipe: Recipe) -> float | None:
    """The training return at which evaluation begins: `eval.start_at` of the way from goal - |goal| to the goal."""
    goal = target_return(recipe)
    share = recipe.eval.start_at
    return None if goal is None or share is None else goal - (1 - share) * abs(goal)
