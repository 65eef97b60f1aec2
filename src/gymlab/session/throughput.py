"""How many env steps per second a recipe trains at, for every way its envs can be stepped on this machine."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np

from gymlab.core.errors import GymlabError
from gymlab.core.statistics import Estimate, estimate, mean
from gymlab.envs.engines.worker_pool import cores_now
from gymlab.recipes.auto_steps import fitting_n_steps
from gymlab.recipes.resolve import amend
from gymlab.recipes.schema import EngineName, Recipe
from gymlab.session.build import Parts, build
from gymlab.session.choose_engine import make_engine

MOST_STEPS = 4096  # of a rollout that is timed: longer ones only take longer
FEWEST_STEPS = 8  # of an update: below, more envs would leave the algorithm too little of each
CLOSE = 0.95  # of the best speed: fewer envs are worth more than the rest
_TIMED_AT_LEAST = 3
_IN_THIS_PROCESS = "sync"


class Way(NamedTuple):
    """One way of stepping envs. Rollouts keep the recipe's size, so `n_steps` follows from `n_envs`."""

    engine: str
    vectorization: str  # auto where the engine leaves no choice
    n_envs: int
    n_steps: int

    @property
    def label(self) -> str:
        return self.engine if self.vectorization == "auto" else f"{self.engine}, {self.vectorization}"


class Timed(NamedTuple):
    """Env steps per second of training, updates included; None where this way is not open, and why."""

    way: Way
    steps_per_second: Estimate | None
    reason: str = ""


def ways(recipe: Recipe, n_envs: Sequence[int] = ()) -> list[Way]:
    """What there is to compare: every engine, here or in processes, by default with half to four times the envs."""
    counts = sorted(set(n_envs)) or sorted({max(1, recipe.n_envs // 2), *(recipe.n_envs * k for k in (1, 2, 4))})
    rollout = recipe.n_envs * recipe.n_steps
    settings = recipe.algorithm.settings
    sized = []
    for count in counts:
        n_steps = fitting_n_steps(settings, count, max(1, rollout // count))
        asked = bool(n_envs) or count == recipe.n_envs
        if n_steps is not None and (asked or n_steps >= min(FEWEST_STEPS, recipe.n_steps)):
            sized.append((count, n_steps))
    kinds = [(engine, "auto") for engine in get_args(EngineName) if engine not in ("auto", "gymnasium")]
    kinds += [("gymnasium", _IN_THIS_PROCESS), *([("gymnasium", "processes")] if cores_now() > 1 else [])]
    return [Way(*kind, *size) for kind in kinds for size in sized if kind[1] != "processes" or size[0] > 1]


def time_all(recipe: Recipe, compared: Sequence[Way], seconds: float) -> Iterator[Timed]:
    """Time each way in turn; an engine that cannot run the recipe is tried once."""
    closed: dict[str, str] = {}
    for way in compared:
        if way.engine in closed:
            yield Timed(way, None, closed[way.engine])
            continue
        try:
            yield Timed(way, _timed(_changed(recipe, way), seconds))
        except GymlabError as error:
            closed[way.engine] = str(error).splitlines()[0]
            yield Timed(way, None, closed[way.engine])


def recommend(timed: Sequence[Timed]) -> Timed:
    """The fewest envs that come close to the best speed; of equals the fastest."""
    open_ways = [(found, found.steps_per_second.value) for found in timed if found.steps_per_second is not None]
    if not open_ways:
        raise GymlabError(f"no engine could be timed: {timed[0].reason if timed else 'there is nothing to compare'}")
    best = max(speed for _, speed in open_ways)
    close = [(found.way.n_envs, -speed, found) for found, speed in open_ways if speed >= CLOSE * best]
    return min(close, key=lambda item: item[:2])[2]


def settings_for(recipe: Recipe, way: Way) -> list[str]:
    """The overrides that make a recipe go this way; nothing for what it does by itself."""
    wanted = [(key, getattr(way, key)) for key in ("n_envs", "n_steps") if getattr(way, key) != getattr(recipe, key)]
    sized = amend(recipe, [f"{key}={value}" for key, value in wanted])
    if _by_itself(sized) == (way.engine, way.vectorization):
        return [f"{key}={value}" for key, value in wanted]
    how = [("vectorization", way.vectorization)] if way.vectorization != "auto" else []
    return [f"{key}={value}" for key, value in [("engine", way.engine), *how, *wanted]]


def _by_itself(recipe: Recipe) -> tuple[str, str]:
    """The engine and vectorization that a recipe comes to."""
    engine, _ = make_engine(recipe, 0, None)
    if hasattr(engine, "close"):
        engine.close()
    kind = {"GymnasiumEngine": _IN_THIS_PROCESS, "ProcessEngine": "processes"}.get(type(engine).__name__, "auto")
    return engine.name, kind


def _changed(recipe: Recipe, way: Way) -> Recipe:
    shorter = fitting_n_steps(recipe.algorithm.settings, way.n_envs, max(1, MOST_STEPS // way.n_envs))
    n_steps = min(way.n_steps, shorter or way.n_steps)
    keys = {"engine": way.engine, "vectorization": way.vectorization, "n_envs": way.n_envs, "n_steps": n_steps}
    return amend(recipe, [*(f"{key}={value}" for key, value in keys.items()), "metrics.statistics=basic"])


def _timed(recipe: Recipe, seconds: float) -> Estimate:
    """Updates with the recipe's own networks, after one that compiles; the interval is over calls."""
    parts = build(recipe, 0)
    try:
        state: Any = parts.program.start(0)
        state, _, _ = _advance(parts, state, 0, 1)  # compiles
        state, done, took = _advance(parts, state, 1, 1)
        at_once = max(1, min(parts.program.most, int(seconds / 5 / took)))
        rates: list[float] = []
        began = time.perf_counter()
        update = 2
        while len(rates) < _TIMED_AT_LEAST or time.perf_counter() - began < seconds:
            state, done, took = _advance(parts, state, update, at_once)
            update += done
            rates.append(done * recipe.n_envs * recipe.n_steps / took)
        return estimate(rates, mean)
    finally:
        parts.program.close()


def _advance(parts: Parts, state: Any, first: int, count: int) -> tuple[Any, int, float]:
    began = time.perf_counter()
    hp = np.stack([parts.plan.hyperparameters(first + i) for i in range(count)])
    advanced = parts.program.advance(state, first, hp, float("inf"))
    return advanced.state, len(advanced.rows), max(time.perf_counter() - began, 1e-9)
