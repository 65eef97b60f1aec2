"""SeededRecipe: a recipe with overrides and a seed, as benchmarks and comparisons train it, and its run id.

The run id holds a digest of every setting, so that an existing run of the same settings and seed is found and reused.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from gymlab.core.rng import generator
from gymlab.core.types import Json, JsonObject
from gymlab.recipes.keys import default_settings, flat_settings
from gymlab.recipes.resolve import resolve
from gymlab.recipes.schema import Recipe
from gymlab.runs.redact import redact_tree

_NOT_SCORED = ("video.", "metrics.", "alerts.", "env.actions", "env.observations", "env.links")  # change no score
_FRESH_SEEDS = 2**31  # evaluations during training draw their seeds below this


def fresh_seed(seed: int) -> int:
    """The seed of a run's scoring episodes, disjoint from those that choose the best checkpoint or stop the run.

    It depends on the training seed alone, so that runs that are compared are scored on the same episodes.
    """
    return _FRESH_SEEDS + int(generator(seed, "scoring episodes").integers(_FRESH_SEEDS))


@dataclass(frozen=True)
class SeededRecipe:
    """What to train, and the id of its run."""

    reference: str  # ENV[:VARIANT] as the user wrote it
    overrides: tuple[str, ...]
    budget: str | None
    seed: int
    full_budget: bool
    recipe: Recipe
    settings: JsonObject
    digest: str

    @property
    def run_id(self) -> str:
        slug = re.sub(r"[^a-z0-9]+", "-", self.recipe.name.lower()).strip("-")[:40].strip("-")
        return f"{slug}-{self.digest}-s{self.seed}"

    @property
    def budget_env_steps(self) -> int:
        return self.recipe.budget_env_steps

    def train_arguments(self) -> list[str]:
        """The arguments of `gymlab train`."""
        budget = [] if self.budget is None else ["--budget", self.budget]
        full = ["--full-budget"] if self.full_budget else []
        return [self.reference, *self.overrides, *budget, "--seed", str(self.seed), *full]


def seed_recipe(
    reference: str, overrides: Sequence[str], seeds: Sequence[int], *, budget: str | None = None, full_budget: bool
) -> list[SeededRecipe]:
    """The same recipe with each seed; the recipe is resolved once."""
    recipe = resolve(reference, overrides, budget=budget).recipe
    settings = counted_settings(flat_settings(recipe)) | _periodic_evaluations(recipe)
    digest = _digest({**settings, "full_budget": full_budget})
    return [
        SeededRecipe(reference, tuple(overrides), budget, seed, full_budget, recipe, redact_tree(settings), digest)
        for seed in seeds
    ]


def _periodic_evaluations(recipe: Recipe) -> dict[str, str]:
    """Where the evaluations that choose the best checkpoint are played, if not on Gymnasium as they once all were."""
    from gymlab.session.choose_engine import compiled_env

    port, _ = compiled_env(recipe, None)
    return {} if port is None or recipe.eval.steps is not None else {"eval.played_on": "compiled"}


def counted_settings(settings: JsonObject) -> dict[str, Json]:
    """The settings that can move a score."""
    return {key: settings[key] for key in sorted(settings) if not key.startswith(_NOT_SCORED)}


def changes(before: JsonObject, after: JsonObject) -> list[str]:
    """Settings that differ, as `key: old -> new`; a key that did not exist before had its default value."""
    defaults = default_settings(after, of_algorithm=True)
    lines = []
    for key in dict.fromkeys([*before, *after]):
        old = before[key] if key in before else defaults.get(key)
        new = after.get(key)
        if _json_value(old) != _json_value(new):
            lines.append(f"{key}: {_crop(old)} -> {_crop(new)}")
    return lines


def _json_value(value: object) -> Json:
    return json.loads(json.dumps(value, default=str))


def _crop(value: Json) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _digest(settings: JsonObject) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()[:8]
