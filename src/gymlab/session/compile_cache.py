"""What was compiled for one run, kept for the next of its shape: neither traced nor compiled again."""

from __future__ import annotations

import json
from typing import NamedTuple

from gymlab.core.schedules import Schedule
from gymlab.recipes.schema import Recipe
from gymlab.training.agent import Agent
from gymlab.training.evaluation import Evaluator
from gymlab.training.trainer_compiled import CompiledTrainer
from gymlab.training.trainer_host import HostTrainer

# Blocks that compiled code knows nothing of. Scheduled values enter it as numbers; all else is compiled in.
_BESIDE = {"name", "budget", "stop", "eval", "checkpoints", "video", "alerts", "features"}

MOST = 8  # shapes at a time: compiled code takes memory


class Compiled(NamedTuple):
    """The parts of a run that hold compiled code."""

    agent: Agent
    program: CompiledTrainer | HostTrainer
    evaluator: Evaluator


class Kept:
    """Compiled parts by the shape of their recipe, for a process that trains one run after another."""

    def __init__(self) -> None:
        self._parts: dict[str, Compiled] = {}

    def find(self, recipe: Recipe) -> Compiled | None:
        return self._parts.get(shape_of(recipe))

    def keep(self, recipe: Recipe, compiled: Compiled) -> None:
        self._parts[shape_of(recipe)] = compiled
        while len(self._parts) > MOST:
            del self._parts[next(iter(self._parts))]


def shape_of(recipe: Recipe) -> str:
    """Equal for recipes that one compiled program serves: those that differ in numbers alone, or in seeds."""
    fields = recipe.model_dump(exclude=_BESIDE)
    chosen = recipe.algorithm.settings
    values = {name: getattr(chosen, name) for name in type(chosen).model_fields}
    # Whether there is a limit (`target_kl`) is compiled in; how high it is, is not.
    fields["algorithm"]["settings"] = {n: "a number" if isinstance(v, Schedule) else v for n, v in values.items()}
    return json.dumps(fields, sort_keys=True, default=repr)
