"""Training throughput (env steps per second) of a recipe with each engine and number of envs on this machine."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple, get_args

from gymlab.core.clock import Clock
from gymlab.core.errors import GymlabError
from gymlab.core.statistics import Estimate, estimate, mean
from gymlab.envs.engines.worker_pool import cores_now
from gymlab.recipes.auto_steps import fitting_n_steps
from gymlab.recipes.resolve import amend
from gymlab.recipes.schema import EngineName, Recipe
from gymlab.session.build import Parts, build
from gymlab.session.choose_engine import make_engine
from gymlab.training.state import TrainState

MOST_STEPS = 4096  # of a rollout that is timed
FEWEST_STEPS = 8  # per env and update; with fewer the algorithm learns worse
CLOSE = 0.95  # share of the best speed at which fewer envs are preferred
_TIMED_AT_LEAST = 3
_IN_THIS_PROCESS = "sync"


class EngineConfig(NamedTuple):
    """An engine and number of envs. Rollouts keep the recipe's size, so `n_steps` follows from `n_envs`."""

    engine: str
    vectorization: str  # auto if the engine offers no choice
    n_envs: int
    n_steps: int

    @property
    def label(self) -> str:
        return self.engine if self.vectorization == "auto" else f"{self.engine}, {self.vectorization}"


class Throughput(NamedTuple):
    """Env steps per second of training, updates included; None if the engine cannot run the recipe, with the reason."""

    config: EngineConfig
    steps_per_second: Estimate | None
    reason: str = ""


def engine_configs(recipe: Recipe, n_envs: Sequence[int] = ()) -> list[EngineConfig]:
    """The configurations to compare: every engine, in this process or others, by default 1/2 to 4 times the envs."""
    counts = sorted(set(n_envs)) or sorted({max(1, recipe.n_envs // 2), *(recipe.n_envs * k for k in (1, 2, 4))})
    rollout = recipe.n_envs * recipe.n_steps
    settings = recipe.algorithm.settings
    sized = []
    for count in counts:
        n_steps = fitting_n_steps(settings, count, max(1, rollout // count))
        requested = bool(n_envs) or count == recipe.n_envs
        if n_steps is not None and (requested or n_steps >= min(FEWEST_STEPS, recipe.n_steps)):
            sized.append((count, n_steps))
    kinds = [(engine, "auto") for engine in get_args(EngineName) if engine not in ("auto", "gymnasium")]
    kinds += [("gymnasium", _IN_THIS_PROCESS), *([("gymnasium", "processes")] if cores_now() > 1 else [])]
    return [EngineConfig(*kind, *size) for kind in kinds for size in sized if kind[1] != "processes" or size[0] > 1]


def time_all(recipe: Recipe, compared: Sequence[EngineConfig], seconds: float) -> Iterator[Throughput]:
    """Time each configuration in turn; an engine that cannot run the recipe is tried once."""
    failed: dict[str, str] = {}
    for config in compared:
        if config.engine in failed:
            yield Throughput(config, None, failed[config.engine])
            continue
        try:
            yield Throughput(config, _measure(_configured(recipe, config), seconds))
        except GymlabError as error:
            failed[config.engine] = str(error).splitlines()[0]
            yield Throughput(config, None, failed[config.engine])


def recommend(timed: Sequence[Throughput]) -> Throughput:
    """The fewest envs that come close to the best speed; of equals the fastest."""
    measured = [(found, found.steps_per_second.value) for found in timed if found.steps_per_second is not None]
    if not measured:
        raise GymlabError(f"no engine could be timed: {timed[0].reason if timed else 'there is nothing to compare'}")
    best = max(speed for _, speed in measured)
    close = [(found.config.n_envs, -speed, found) for found, speed in measured if speed >= CLOSE * best]
    return min(close, key=lambda item: item[:2])[2]


def overrides_for(recipe: Recipe, config: EngineConfig) -> list[str]:
    """The overrides that make a recipe use a configuration; none for what it chooses by itself."""
    sizes = [
        (key, getattr(config, key)) for key in ("n_envs", "n_steps") if getattr(config, key) != getattr(recipe, key)
    ]
    resized = amend(recipe, [f"{key}={value}" for key, value in sizes])
    if _automatic_engine(resized) == (config.engine, config.vectorization):
        return [f"{key}={value}" for key, value in sizes]
    how = [("vectorization", config.vectorization)] if config.vectorization != "auto" else []
    return [f"{key}={value}" for key, value in [("engine", config.engine), *how, *sizes]]


def _automatic_engine(recipe: Recipe) -> tuple[str, str]:
    """The engine and vectorization that a recipe results in."""
    engine, _ = make_engine(recipe, 0, None)
    if hasattr(engine, "close"):
        engine.close()
    kind = {"GymnasiumEngine": _IN_THIS_PROCESS, "ProcessEngine": "processes"}.get(type(engine).__name__, "auto")
    return engine.name, kind


def _configured(recipe: Recipe, config: EngineConfig) -> Recipe:
    shorter = fitting_n_steps(recipe.algorithm.settings, config.n_envs, max(1, MOST_STEPS // config.n_envs))
    n_steps = min(config.n_steps, shorter or config.n_steps)
    keys = {"engine": config.engine, "vectorization": config.vectorization, "n_envs": config.n_envs, "n_steps": n_steps}
    return amend(recipe, [*(f"{key}={value}" for key, value in keys.items()), "metrics.statistics=basic"])


def _measure(recipe: Recipe, seconds: float) -> Estimate:
    """Time updates with the recipe's own networks, after one that compiles; the interval is over calls."""
    parts = build(recipe, 0)
    try:
        state = parts.program.start(0)
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


def _advance(parts: Parts, state: TrainState, first: int, count: int) -> tuple[TrainState, int, float]:
    began = time.perf_counter()
    clock = parts.plan.after(Clock(), first)
    advanced = parts.program.advance(state, clock, parts.plan.scheduled(clock, count), float("inf"))
    return advanced.state, len(advanced.rows), max(time.perf_counter() - began, 1e-9)
