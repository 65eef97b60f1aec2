"""How often a run's metrics are taken and stored: from its recipe and budget alone, never from the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gymlab.recipes.schema import MetricsSettings
from gymlab.training.update_histograms import UpdateRule

if TYPE_CHECKING:
    from gymlab.session.build import Parts

MOST_ROWS = 20_000


def updates_per_row(settings: MetricsSettings, updates: int) -> int:
    """How many updates one stored row stands for, in a run of so many."""
    return -(-updates // MOST_ROWS) if settings.rows_every == "auto" else settings.rows_every


def look_rule(parts: Parts) -> UpdateRule:
    """Distributions are taken of the first and the last update, at evaluations, and at a cadence in whole rows."""
    settings = parts.recipe.metrics
    last = parts.plan.updates
    row = updates_per_row(settings, last)
    every = -(-settings.distributions_every // row) * row
    evaluation = parts.period(parts.recipe.eval.every, parts.recipe.eval.warmup)
    return lambda update: update == 1 or update % every == 0 or update == last or evaluation.fires(update)
