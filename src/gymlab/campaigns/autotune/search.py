"""The search of an autotune: its space, its size within the time limit, its sweep plans, and the candidates it yields.

Search by successive halving, choice on other seeds, confirmation on fresh ones. Time decides only how many runs there
are and how long they are, never what is said of the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gymlab.campaigns.autotune.state import AutotuneState
from gymlab.campaigns.sweep.plan import TRIAL_OVERRIDES, SweepPlan
from gymlab.campaigns.sweep.pruning import ETA, rungs_for
from gymlab.campaigns.sweep.store import Trial, best_trial
from gymlab.core.errors import UserError
from gymlab.core.schedules import Schedule
from gymlab.recipes.resolve import amend, resolve
from gymlab.recipes.schema import Recipe
from gymlab.recipes.secrets import dump_redacted_recipe
from gymlab.runs.manifest import versions
from gymlab.runs.status import now

# Bad policies are slow to evaluate, and trials are evaluated at their rungs anyway.
RUN_OVERRIDES = (*TRIAL_OVERRIDES, "eval.every=25%")
SEARCH_SEEDS = (0,)  # the stages share no seed
CHOICE_SEEDS = (1, 2)
FRESH_SEED = 9000  # the first seed of the confirmation
CANDIDATES = 3
SEARCH_SHARE = 0.45  # of the time limit; 5 % are left for starting up
CHOICE_SHARE = 0.15
CONFIRM_SHARE = 0.35
MIN_FRESH = 5  # seeds a side: with fewer, one lucky seed hides any difference
MAX_FRESH = 10
DEFAULT_FRESH = 5
START_SECONDS = 12.0  # a confirming run's start, compilation and scoring
_SEARCH_END = SEARCH_SHARE + 0.03  # the measurement takes time too
_USABLE_SPEED = 0.7  # of the measured speed: trials compile, evaluate, wait for each other and may have more epochs
_LONGEST_LEG = 1 - 1 / ETA  # of a run, from the last rung to its end: it may begin just before the search ends
_RUNS_PER_ROUND = 1 + 2 * (1 - 1 / ETA)  # complete runs' worth of steps in a round of nine, halved twice
_MIN_UPDATES = 10  # of a run, below which nothing is learnt
_MAX_ROUNDS = 12

# The search space: the values in common use. Settings that are compiled in have two values each.
_CHOICES: dict[str, tuple[str, ...]] = {
    "gamma": ("0.95", "0.98", "0.99", "0.995", "0.999"),
    "gae_lambda": ("0.8", "0.9", "0.95", "0.98"),
    "entropy_coef": ("0", "0.001", "0.01", "0.03"),
    "clip_range": ("0.1", "0.2", "0.3"),
}
_COMPILED_FROM = ((300.0, 2), (900.0, 4))  # from this time limit on, so many settings that cost compilations
_LEARNING_RATES = (3e-5, 1e-2)
_MAX_N_STEPS = 1024


def search_space(recipe: Recipe, seconds: float) -> tuple[str, ...]:
    """`--space` texts for a recipe; the learning rate keeps the shape of its schedule.

    Settings that are compiled in are added only if there is time: each of them doubles the number of programs to
    compile.
    """
    name = recipe.algorithm.name
    settings = recipe.algorithm.settings
    rate = settings.learning_rate
    shape = "lin_" if isinstance(rate, Schedule) and str(rate.source).startswith("lin_") else ""
    texts = [f"{name}.learning_rate={shape}log:{_LEARNING_RATES[0]:g}..{_LEARNING_RATES[1]:g}"]
    for key, values in _CHOICES.items():
        if key in type(settings).model_fields:
            texts += _valid_choices(recipe, f"{name}.{key}", values)
    n_steps = recipe.n_steps * 4 if recipe.n_steps * 4 <= _MAX_N_STEPS else recipe.n_steps // 4
    compiled = {"normalize.obs": ("false", "true"), "normalize.reward": ("false", "true")}
    compiled |= {"n_steps": (str(recipe.n_steps), str(n_steps))}
    if "epochs" in type(settings).model_fields:
        compiled |= {f"{name}.epochs": ("4", "10")}
    limit = max((count for least, count in _COMPILED_FROM if seconds >= least), default=0)
    for key, values in list(compiled.items())[:limit]:
        texts += _valid_choices(recipe, key, values)
    return tuple(texts)


def _valid_choices(recipe: Recipe, key: str, values: Sequence[str]) -> list[str]:
    """A `--space` text of the values that the recipe accepts; none if there are fewer than two."""
    valid = []
    for value in values:
        try:
            amend(recipe, [f"{key}={value}"])
        except UserError:
            continue
        valid.append(value)
    return [f"{key}={','.join(valid)}"] if len(valid) > 1 else []


def size_by_time(state: AutotuneState, recipe: Recipe, speed: float) -> AutotuneState:
    """Derive the length of runs and the number of trials from the time limit and the measured speed."""
    rollout = recipe.n_envs * recipe.n_steps
    capacity = state.seconds * state.workers * speed * _USABLE_SPEED  # env_steps in all
    start_steps = DEFAULT_FRESH * 2 * START_SECONDS * speed
    affordable = (capacity * CONFIRM_SHARE - start_steps) / (DEFAULT_FRESH * 2)
    affordable = min(affordable, capacity * CHOICE_SHARE / (CANDIDATES * len(CHOICE_SEEDS)))
    if affordable < _MIN_UPDATES * rollout:
        needed = math.ceil(state.seconds * _MIN_UPDATES * rollout / max(affordable, rollout) / 60)
        raise UserError(
            f"--budget: at {speed:,.0f} env_steps a second runs would be too short to learn anything; "
            f"give it {needed}m or more, or take fewer n_steps"
        )
    env_steps = state.requested[0] or min(recipe.budget_env_steps, int(affordable))
    rounds = max(2, int(capacity * SEARCH_SHARE / (env_steps * _RUNS_PER_ROUND)))
    return set_size(state, recipe, env_steps, state.requested[1] or min(rounds, _MAX_ROUNDS) * ETA**2, speed)


def set_size(state: AutotuneState, recipe: Recipe, env_steps: int, trials: int, speed: float = 0.0) -> AutotuneState:
    """The state with everything that determines the search."""
    decided = {"speed": speed, "env_steps": env_steps, "trials": trials, "space": search_space(recipe, state.seconds)}
    return state.model_copy(update={**decided, "created": now(), "versions": versions()})


def run_seconds(state: AutotuneState) -> float:
    """Estimated worker seconds of one complete run."""
    return state.env_steps / (state.speed * _USABLE_SPEED) + START_SECONDS


def search_end(state: AutotuneState) -> float:
    """Seconds after which no trial is begun, so that the choice and the confirmation on MIN_FRESH seeds still fit."""
    runs = (CANDIDATES * len(CHOICE_SEEDS) + 2 * MIN_FRESH) / state.workers
    rest = (runs + _LONGEST_LEG) * run_seconds(state)
    return max(state.seconds * SEARCH_SHARE / 2, min(state.seconds * _SEARCH_END, state.seconds - rest))


def fresh_seeds(state: AutotuneState, spent: float) -> tuple[int, ...]:
    """The seeds of the confirmation: as requested, else as many as fit into the time left, within bounds."""
    if state.requested[2] or not state.speed:
        return tuple(range(FRESH_SEED, FRESH_SEED + (state.requested[2] or DEFAULT_FRESH)))
    seconds = max(run_seconds(state), state.pace)
    left = max(0.0, state.seconds - spent)
    count = int(left * state.workers / (2 * seconds))
    return tuple(range(FRESH_SEED, FRESH_SEED + min(MAX_FRESH, max(MIN_FRESH, count))))


def search_plan(state: AutotuneState, recipe: Recipe) -> SweepPlan:
    """The recipe itself as the first trial, then rounds of nine."""
    return _plan(state, recipe, state.name, ((),), trials=state.trials, batch=ETA**2, seeds=SEARCH_SEEDS)


def choice_plan(state: AutotuneState, recipe: Recipe) -> SweepPlan:
    """The candidates again on other seeds, on which a lucky one loses its advantage."""
    count = len(state.candidates)
    return _plan(
        state,
        recipe,
        f"{state.name[:33]}-choice",
        first=state.candidates,
        trials=count,
        batch=count,
        seeds=CHOICE_SEEDS,
    )


def _plan(
    state: AutotuneState, recipe: Recipe, name: str, first: tuple[tuple[str, ...], ...], **more: Any
) -> SweepPlan:
    searches = more["trials"] > len(first)
    return SweepPlan(
        name=name,
        reference=state.reference,
        title=recipe.name,
        recipe=dump_redacted_recipe(recipe),
        overrides=state.overrides,
        budget=state.budget,
        space=state.space,
        method="tpe",
        prune="halving" if searches else "none",
        rungs=rungs_for("halving", state.env_steps, recipe.n_envs * recipe.n_steps) if searches else (),
        seed=state.seed,
        first=first,
        **more,
        stop_at_critical=True,
        created=state.created,
        versions=state.versions,
    )


def tuned_recipe(state: AutotuneState, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe that the search trains: the user's, with the budget of the state."""
    budget = state.budget if state.env_steps else None
    return amend(resolve(state.reference, state.overrides, budget=budget).recipe, [*RUN_OVERRIDES, *overrides])


def select_candidates(trials: Sequence[Trial]) -> tuple[tuple[str, ...], ...]:
    """The best trials other than the recipe itself, ranked by rungs passed, then finished first, then by value."""
    ranked = sorted(
        (
            trial
            for trial in trials
            if trial.overrides and trial.value is not None and not trial.reason.startswith("ruled out")
        ),
        key=lambda trial: (-len(trial.rungs), trial.state != "finished", -(trial.value or 0.0), trial.index),
    )
    return tuple(trial.overrides for trial in ranked[:CANDIDATES])


def select_best(trials: Sequence[Trial]) -> tuple[str, ...]:
    """The overrides of the best candidate on the other seeds; () if none has finished."""
    best = best_trial(trials)
    return () if best is None else best.overrides
