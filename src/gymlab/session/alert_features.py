"""The alerts of a run: which rules watch it, and what is checked before it begins."""

from __future__ import annotations

import logging

from gymlab.alerts.context import RunContext
from gymlab.alerts.engine import AlertEngine
from gymlab.alerts.registry import rules_for
from gymlab.algorithms.registry import ALGORITHMS
from gymlab.features.alerts import Alerts
from gymlab.recipes.keys import flat_settings
from gymlab.recipes.schema import Recipe
from gymlab.reports.report import context_of
from gymlab.runs.paths import RunPaths
from gymlab.session.build import Parts, algorithm_class
from gymlab.session.preflight import are_copies

log = logging.getLogger(__name__)


def make_alerts(parts: Parts, paths: RunPaths) -> Alerts:
    """The feature that watches a run: the rules of its algorithm, or of the one it extends, and its recipe's own."""
    recipe = parts.recipe
    spaces = parts.spaces
    context = context_of(flat_settings(recipe), spaces.action, spaces.observation, spaces.max_episode_steps)
    lineage = algorithm_class(recipe.algorithm.name).__mro__
    names = [name for kind in lineage for name, known in ALGORITHMS.items() if known is kind]
    rules = rules_for(names, [rule.rule() for rule in recipe.alerts.rules], recipe.alerts.off)
    wanted = "identical-envs" not in recipe.alerts.off and recipe.n_envs > 1
    return Alerts(
        AlertEngine(rules, RunContext(context, masked=spaces.masked)),
        paths,
        lambda: _preflight(recipe) if wanted else {},
    )


def _preflight(recipe: Recipe) -> dict[str, float]:
    try:
        return {"env/copies": float(are_copies(recipe))}
    except Exception as error:  # the training envs, made in other processes perhaps, tell what is wrong with them
        log.info("whether the envs are copies could not be checked: %s: %s", type(error).__name__, error)
        return {}
