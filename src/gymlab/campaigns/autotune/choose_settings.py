"""Which settings autotune tries for a recipe: those that matter most, at values that the recipe allows."""

from __future__ import annotations

from collections.abc import Sequence

from gymlab.core.errors import UserError
from gymlab.core.schedules import Schedule
from gymlab.recipes.resolve import amend
from gymlab.recipes.schema import Recipe

# The values that people use.
_CHOICES: dict[str, tuple[str, ...]] = {
    "gamma": ("0.95", "0.98", "0.99", "0.995", "0.999"),
    "gae_lambda": ("0.8", "0.9", "0.95", "0.98"),
    "entropy_coef": ("0", "0.001", "0.01", "0.03"),
    "clip_range": ("0.1", "0.2", "0.3"),
}
_COMPILED_FROM = ((300.0, 2), (900.0, 4))  # seconds there are, and how many settings may then cost compilations
_RATE = (3e-5, 1e-2)
_MOST_STEPS = 1024  # of each env and update


def space_of(recipe: Recipe, seconds: float) -> tuple[str, ...]:
    """`--space` texts for a recipe; the learning rate keeps the shape of its schedule.

    What is compiled in has two values only, and comes in where there is time: each of those settings doubles the
    number of programs to compile.
    """
    name = recipe.algorithm.name
    settings = recipe.algorithm.settings
    rate = settings.learning_rate
    shape = "lin_" if isinstance(rate, Schedule) and str(rate.source).startswith("lin_") else ""
    texts = [f"{name}.learning_rate={shape}log:{_RATE[0]:g}..{_RATE[1]:g}"]
    for key, values in _CHOICES.items():
        if key in type(settings).model_fields:
            texts += _allowed(recipe, f"{name}.{key}", values)
    other = recipe.n_steps * 4 if recipe.n_steps * 4 <= _MOST_STEPS else recipe.n_steps // 4
    compiled = {"normalize.obs": ("false", "true"), "normalize.reward": ("false", "true")}
    compiled |= {"n_steps": (str(recipe.n_steps), str(other))}
    if "epochs" in type(settings).model_fields:
        compiled |= {f"{name}.epochs": ("4", "10")}
    many = max((count for least, count in _COMPILED_FROM if seconds >= least), default=0)
    for key, values in list(compiled.items())[:many]:
        texts += _allowed(recipe, key, values)
    return tuple(texts)


def _allowed(recipe: Recipe, key: str, values: Sequence[str]) -> list[str]:
    """The values that the recipe takes; a key with fewer than two is left as it is."""
    fit = []
    for value in values:
        try:
            amend(recipe, [f"{key}={value}"])
        except UserError:
            continue
        fit.append(value)
    return [f"{key}={','.join(fit)}"] if len(fit) > 1 else []
