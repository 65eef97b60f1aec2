"""What a name means, wherever it comes from: `gymlab explain`, and whoever else is asked."""

from __future__ import annotations

import importlib

from gymlab.core.errors import UserError, suggestion
from gymlab.core.explanation import Explanation

# Modules that offer `names()` and `explain(name)` (gymlab.core.explanation.Source), asked in this order.
SOURCES = ("gymlab.metrics.explain", "gymlab.alerts.explain", "gymlab.recipes.keys", "gymlab.envs.explain_wrappers")


def explain(name: str) -> list[Explanation]:
    """Everything of this name; UserError with the nearest one where there is nothing."""
    asked = [importlib.import_module(source) for source in SOURCES]
    found = [explanation for source in asked for explanation in source.explain(name)]
    if not found:
        known = [other for source in asked for other in source.names()]
        raise UserError(f"nothing is called {name[:80]!r}: {suggestion(name[:80], known)}")
    return found
