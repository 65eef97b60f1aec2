"""CompileCache: the compiled parts of a run, reused for the next one of the same shape in this process."""

from __future__ import annotations

import json
from typing import NamedTuple

from gymlab.core.schedules import Schedule
from gymlab.recipes.schema import Recipe
from gymlab.training.agent import Agent
from gymlab.training.evaluation import Evaluator
from gymlab.training.trainer_compiled import CompiledTrainer
from gymlab.training.trainer_host import HostTrainer

# Blocks of a recipe that compiled code does not depend on. Schedules enter it as numbers; all else is compiled in.
_NOT_COMPILED = {"name", "budget", "stop", "eval", "checkpoints", "video", "alerts", "features"}

MOST_SHAPES = 8  # compiled code takes memory


class CompiledParts(NamedTuple):
    """The parts of a run that hold compiled code."""

    agent: Agent
    program: CompiledTrainer | HostTrainer
    evaluator: Evaluator


class CompileCache:
    """Compiled parts by `compile_key`, for a process that trains one run after another; drops the oldest."""

    def __init__(self) -> None:
        self._parts: dict[str, CompiledParts] = {}

    def get(self, recipe: Recipe) -> CompiledParts | None:
        return self._parts.get(compile_key(recipe))

    def put(self, recipe: Recipe, compiled: CompiledParts) -> None:
        self._parts[compile_key(recipe)] = compiled
        while len(self._parts) > MOST_SHAPES:
            del self._parts[next(iter(self._parts))]


def compile_key(recipe: Recipe) -> str:
    """Equal for recipes that one compiled program serves: those that differ only in numbers or seeds."""
    fields = recipe.model_dump(exclude=_NOT_COMPILED)
    settings = recipe.algorithm.settings
    values = {name: getattr(settings, name) for name in type(settings).model_fields}
    # Whether there is a limit (`target_kl`) is compiled in, its value is not.
    fields["algorithm"]["settings"] = {n: "a number" if isinstance(v, Schedule) else v for n, v in values.items()}
    return json.dumps(fields, sort_keys=True, default=repr)
