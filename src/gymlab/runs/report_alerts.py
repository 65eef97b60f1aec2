"""The report's section on alerts."""

from __future__ import annotations

from gymlab.runs.facts import Facts
from gymlab.runs.sections import Section


def alerts(facts: Facts) -> Section | None:
    """What went wrong, how often and what to change; None where nothing watched the run."""
    del facts
    return None
