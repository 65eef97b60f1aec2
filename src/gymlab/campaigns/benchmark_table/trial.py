"""One training run of a comparison: a recipe with overrides and a seed, under a name that says which it is.

The name holds a digest of every setting, so that the same trial is found again, finished or not, and another is not.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gymlab.core.rng import generator
from gymlab.recipes.keys import default_settings, flat_settings
from gymlab.recipes.resolve import resolve
from gymlab.recipes.schema import Recipe
from gymlab.runs.redact import redact_tree

_BESIDE = ("video.", "metrics.", "alerts.", "env.actions", "env.observations", "env.links")  # change no score
_OWN = 2**31  # evaluations during training draw their seeds below this


def fresh_seed(seed: int) -> int:
    """The seed of a run's scoring episodes.

    It lies above all that choose a best checkpoint or stop a run, and depends on the training seed alone: what is
    compared meets the same episodes.
    """
    return _OWN + int(generator(seed, "scoring episodes").integers(_OWN))


@dataclass(frozen=True)
class Trial:
    """What to train, and how it is called."""

    reference: str  # ENV[:VARIANT] as the user wrote it
    overrides: tuple[str, ...]
    budget: str | None
    seed: int
    full_budget: bool
    recipe: Recipe
    settings: Mapping[str, Any]
    digest: str

    @property
    def run_id(self) -> str:
        slug = re.sub(r"[^a-z0-9]+", "-", self.recipe.name.lower()).strip("-")[:40].strip("-")
        return f"{slug}-{self.digest}-s{self.seed}"

    @property
    def budget_env_steps(self) -> int:
        budget = self.recipe.budget
        return budget.count * (self.recipe.n_envs if budget.clock == "vec_steps" else 1)

    def words(self) -> list[str]:
        """What follows `gymlab train`."""
        budget = [] if self.budget is None else ["--budget", self.budget]
        full = ["--full-budget"] if self.full_budget else []
        return [self.reference, *self.overrides, *budget, "--seed", str(self.seed), *full]


def trials(
    reference: str, overrides: Sequence[str], seeds: Sequence[int], *, budget: str | None = None, full_budget: bool
) -> list[Trial]:
    """One trial per seed; the recipe is looked up once, and everything wrong with it told at once."""
    recipe = resolve(reference, overrides, budget=budget).recipe
    settings = counted_settings(flat_settings(recipe))
    digest = _digest({**settings, "full_budget": full_budget})
    return [
        Trial(reference, tuple(overrides), budget, seed, full_budget, recipe, redact_tree(settings), digest)
        for seed in seeds
    ]


def counted_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that can move a score."""
    return {key: settings[key] for key in sorted(settings) if not key.startswith(_BESIDE)}


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """What was set differently, as `key: old -> new`. A key that is new since is told only where it is not at its
    default: it was as if it had been there.
    """
    defaults = default_settings(after, of_algorithm=True)
    told = []
    for key in dict.fromkeys([*before, *after]):
        old = before[key] if key in before else defaults.get(key)
        new = after.get(key)
        if _plain(old) != _plain(new):
            told.append(f"{key}: {_brief(old)} -> {_brief(new)}")
    return told


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))


def _brief(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _digest(settings: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()[:8]
