"""Autotune: search by successive halving, choose on other seeds, and confirm against the recipe on fresh ones.

What was decided (how long a run may be, how many trials, which seeds) is written down once, so that an interrupted
autotune goes on as it was meant. Time decides only where it stops looking, never what is said of the result.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from gymlab.campaigns.autotune.choose_settings import space_of
from gymlab.campaigns.sweep.plan import ETA, Plan, sweep_folder
from gymlab.campaigns.sweep.pruning import rungs_for
from gymlab.campaigns.sweep.start import QUIET, budget_env_steps
from gymlab.campaigns.sweep.trial import Row, best_row
from gymlab.core.errors import RunError, UserError
from gymlab.core.settings import Settings
from gymlab.recipes.resolve import amend, resolve
from gymlab.recipes.schema import Recipe
from gymlab.recipes.secrets import dump_redacted_recipe
from gymlab.runs import files
from gymlab.runs.manifest import versions
from gymlab.runs.status import now

FILE = "autotune.json"
# Sick policies take long to evaluate, and rungs have evaluations of their own.
MANNER = (*QUIET, "eval.every=25%")
SEARCH_SEEDS = (0,)  # no run of one stage is seen in another
CHOICE_SEEDS = (1, 2)
FRESH_SEED = 9000
CANDIDATES = 3
SEARCH_SHARE = 0.45  # of the time; what is left is for starting up
CHOICE_SHARE = 0.15
CONFIRM_SHARE = 0.35
LEAST_FRESH = 5  # with fewer one lucky seed hides any difference
MOST_FRESH = 10
USUAL_FRESH = 5
_SEARCH_ENDS = SEARCH_SHARE + 0.03  # measuring has taken its time too
START_SECONDS = 12.0  # a confirming run's start, compilation and scoring
_CAUTION = 0.7  # of the speed measured: trials compile, evaluate, wait for each other and may have more epochs
_LONGEST_LEG = 1 - 1 / ETA  # of a run, from the last rung to the end: it may have begun just before the search ends
_ROUND_UNITS = 1 + 2 * (1 - 1 / ETA)  # whole runs that a round of nine comes to, when two in three are given up twice
_LEAST_UPDATES = 10  # of a run, below which nothing is learnt
_MOST_ROUNDS = 12
Stage = Literal["search", "choice", "confirm", "done"]


class State(Settings):
    """All that an autotune has decided and found so far."""

    name: str
    reference: str
    overrides: tuple[str, ...] = ()
    seconds: float
    """Asked for."""
    seed: int = 0
    given: tuple[int | None, int | None, int | None] = (None, None, None)
    """env_steps of a run, trials, fresh seeds: where the user has them, time decides nothing."""
    workers: int
    speed: float = 0.0
    """env_steps a second of one worker, measured."""
    env_steps: int = 0
    """Of every run, tuned or not."""
    trials: int = 0
    space: tuple[str, ...] = ()
    stage: Stage = "search"
    spent: float = 0.0
    """Seconds so far, of all sessions."""
    cut: bool = False
    """Time ended the search before all its trials were done."""
    candidates: tuple[tuple[str, ...], ...] = ()
    chosen: tuple[str, ...] | None = None
    """Overrides of the tuned recipe; empty: nothing did better than the recipe."""
    pace: float = 0.0
    """Seconds of a worker for a run of the choice: longer than reckoned where the machine has other work by now."""
    fresh: tuple[int, ...] = ()
    result: dict[str, Any] | None = None
    written: str | None = None
    created: str = ""
    versions: dict[str, str] = Field(default_factory=dict)

    @property
    def budget(self) -> str:
        return f"{self.env_steps} env_steps"


def write_state(runs_root: Path, state: State) -> State:
    folder = sweep_folder(runs_root, state.name)
    folder.mkdir(parents=True, exist_ok=True)
    files.write_json(folder / FILE, state.model_dump(mode="json"))
    return state


def read_state(runs_root: Path, name: str) -> State | None:
    """None where there is no autotune of that name."""
    path = sweep_folder(runs_root, name) / FILE
    if not path.is_file():
        return None
    try:
        return State.model_validate(files.read_json(path))
    except ValidationError as error:
        raise RunError(f"{path} is damaged: remove it to tune anew") from error


def asked(known: State, wanted: State) -> State:
    """What is known, where it was asked for in the same way."""
    for key in ("reference", "overrides", "seconds", "seed", "given"):
        before = getattr(known, key)
        after = getattr(wanted, key)
        if before != after:
            raise UserError(f"autotune '{known.name}' exists with another {key} ({before}): choose another --name")
    return known


def decide(state: State, recipe: Recipe, speed: float) -> State:
    """How long runs are and how many trials there are, from the time there is and the speed that was measured."""
    rollout = recipe.n_envs * recipe.n_steps
    most = budget_env_steps(recipe)
    capacity = state.seconds * state.workers * speed * _CAUTION  # env steps in all
    starts = USUAL_FRESH * 2 * START_SECONDS * speed
    fits = (capacity * CONFIRM_SHARE - starts) / (USUAL_FRESH * 2)
    fits = min(fits, capacity * CHOICE_SHARE / (CANDIDATES * len(CHOICE_SEEDS)))
    if fits < _LEAST_UPDATES * rollout:
        needed = math.ceil(state.seconds * _LEAST_UPDATES * rollout / max(fits, rollout) / 60)
        raise UserError(
            f"--budget: at {speed:,.0f} env_steps a second runs would be too short to learn anything; "
            f"give it {needed}m or more, or take fewer n_steps"
        )
    env_steps = state.given[0] or min(most, int(fits))
    rounds = max(2, int(capacity * SEARCH_SHARE / (env_steps * _ROUND_UNITS)))
    return settle(state, recipe, env_steps, state.given[1] or min(rounds, _MOST_ROUNDS) * ETA**2, speed)


def run_seconds(state: State) -> float:
    """Of a worker, for one whole run: reckoned before any was seen."""
    return state.env_steps / (state.speed * _CAUTION) + START_SECONDS


def search_ends(state: State) -> float:
    """Seconds after which no further trial is begun, so that the choice and the fewest fresh seeds still fit."""
    runs = (CANDIDATES * len(CHOICE_SEEDS) + 2 * LEAST_FRESH) / state.workers
    rest = (runs + _LONGEST_LEG) * run_seconds(state)
    return max(state.seconds * SEARCH_SHARE / 2, min(state.seconds * _SEARCH_ENDS, state.seconds - rest))


def settle(state: State, recipe: Recipe, env_steps: int, trials: int, speed: float = 0.0) -> State:
    """With this the search is determined."""
    decided = {"speed": speed, "env_steps": env_steps, "trials": trials, "space": space_of(recipe, state.seconds)}
    return state.model_copy(update={**decided, "created": now(), "versions": versions()})


def search_plan(state: State, recipe: Recipe) -> Plan:
    """The recipe itself first, then rounds of nine."""
    return _plan(state, recipe, state.name, ((),), trials=state.trials, batch=ETA**2, seeds=SEARCH_SEEDS)


def choice_plan(state: State, recipe: Recipe) -> Plan:
    """The best of the search on other seeds: what was merely lucky falls back."""
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


def _plan(state: State, recipe: Recipe, name: str, first: tuple[tuple[str, ...], ...], **more: Any) -> Plan:
    searches = more["trials"] > len(first)
    return Plan(
        name=name,
        reference=state.reference,
        title=recipe.name,
        recipe=dump_redacted_recipe(recipe),
        given=state.overrides,
        budget=state.budget,
        space=state.space,
        method="tpe",
        prune="halving" if searches else "none",
        rungs=rungs_for("halving", state.env_steps, recipe.n_envs * recipe.n_steps) if searches else (),
        seed=state.seed,
        first=first,
        **more,
        stop_sick=True,
        created=state.created,
        versions=state.versions,
    )


def tuned_recipe(state: State, overrides: Sequence[str] = ()) -> Recipe:
    """What runs of the search train: the user's recipe with the budget that fits."""
    budget = state.budget if state.env_steps else None
    return amend(resolve(state.reference, state.overrides, budget=budget).recipe, [*MANNER, *overrides])


def candidates(rows: Sequence[Row]) -> tuple[tuple[str, ...], ...]:
    """The best of the search that are not the recipe itself: finished trials first, then those that came furthest."""
    ranked = sorted(
        (row for row in rows if row.overrides and row.value is not None and not row.reason.startswith("ruled out")),
        key=lambda row: (-len(row.rungs), row.state != "finished", -(row.value or 0.0), row.index),
    )
    return tuple(row.overrides for row in ranked[:CANDIDATES])


def choose(rows: Sequence[Row]) -> tuple[str, ...]:
    """The candidate that did best on the other seeds; () where none came to its end."""
    best = best_row(rows)
    return () if best is None else best.overrides


def fresh_seeds(state: State, spent: float) -> tuple[int, ...]:
    """As many as the time that is left allows, within bounds."""
    if state.given[2] or not state.speed:
        return tuple(range(FRESH_SEED, FRESH_SEED + (state.given[2] or USUAL_FRESH)))
    each = max(run_seconds(state), state.pace)
    left = max(0.0, state.seconds - spent)
    count = int(left * state.workers / (2 * each))
    return tuple(range(FRESH_SEED, FRESH_SEED + min(MOST_FRESH, max(LEAST_FRESH, count))))


class Watchmaker:
    """Counts the time of this session on top of what others have spent."""

    def __init__(self, before: float) -> None:
        self._before = before
        self._began = time.monotonic()

    @property
    def spent(self) -> float:
        return self._before + time.monotonic() - self._began
