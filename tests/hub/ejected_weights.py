"""How far the weights of an ejected file are from the lab's; as a program: of the recipes on its command line, as JSON.

The tests' own process compiles without optimisation, which rounds otherwise than a run does.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from pathlib import Path

import jax
import numpy as np

from gymlab.core.clock import Clock
from gymlab.hub.eject import eject
from gymlab.recipes.resolve import resolve
from gymlab.recipes.schema import Recipe
from gymlab.session.build import build

SEED = 3
Weights = dict[str, np.ndarray]


def recipe_of(command: str) -> Recipe:
    name, *overrides = command.split()
    return resolve(name, overrides).recipe


def lab_weights(recipe: Recipe, updates: list[int]) -> list[Weights]:
    """The first weights, and those after each of these numbers of updates."""
    parts = build(recipe, SEED)
    state = parts.program.start(SEED)
    clock = Clock()
    found = [state.algorithm.params]
    for count in np.diff([0, *updates]):
        state = parts.program.advance(state, clock, parts.plan.scheduled(clock, count), np.inf).state
        clock = parts.plan.after(clock, count)
        found.append(state.algorithm.params)
    return found


def ejected_weights(text: str, updates: list[int]) -> list[Weights]:
    """The same of an ejected file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ejected.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location("ejected", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    key = jax.random.key(SEED)
    state = jax.jit(module.start)(key)
    update = jax.jit(module.update)
    found = [state.learner.params]
    for number in range(updates[-1]):
        state, _ = update(state, key, np.uint32(number), module.hyperparameters(number))
        found += [state.learner.params] if number + 1 in updates else []
    return found


def distance(one: Weights, other: Weights) -> float:
    """The largest difference of any weight."""
    assert one.keys() == other.keys()
    return max(float(np.abs(np.asarray(one[name]) - np.asarray(other[name])).max()) for name in one)


def distances(command: str, updates: list[int]) -> list[float]:
    recipe = recipe_of(command)
    pairs = zip(ejected_weights(eject(recipe, command), updates), lab_weights(recipe, updates), strict=True)
    return [distance(one, other) for one, other in pairs]


if __name__ == "__main__":
    for recipe_command in sys.argv[1:]:
        print(json.dumps([recipe_command, *distances(recipe_command, [3, 20])]), flush=True)
