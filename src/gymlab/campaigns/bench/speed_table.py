"""Table of measured speeds: medians, with the lowest and the highest."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from gymlab.campaigns.bench.measure import Measured

COLUMNS = {
    "steps_per_second": ("env steps/s", ",.0f"),
    "first_update_seconds": ("first update, s", ".1f"),
    "exit_seconds": ("last evaluation to end, s", ".2f"),
    "evaluation_seconds": ("evaluating, s", ".1f"),
    "whole_process_seconds": ("whole process, s", ".1f"),
    "peak_mb": ("peak MB", ",.0f"),
}


def median_of(repeats: Sequence[Measured], key: str) -> float | None:
    """The median of one measure; None where it was not measured."""
    found = [each[key] for each in repeats if key in each]
    return statistics.median(found) if found else None


def format_speeds(measured: Mapping[str, Sequence[Measured]]) -> list[str]:
    """A row per system."""
    names = list(measured)
    width = max(len(name) for name in names) + 2
    head = " " * width + "".join(
        f"{title:>27}" if key == "steps_per_second" else f"{title:>{len(title) + 2}}"
        for key, (title, _) in COLUMNS.items()
    )
    rows = [head]
    for name in names:
        row = f"{name:<{width}}"
        for key, (title, form) in COLUMNS.items():
            value = median_of(measured[name], key)
            if key == "steps_per_second":
                row += f"{_spread([each[key] for each in measured[name]]):>27}"
            else:
                row += f"{'-' if value is None else format(value, form):>{len(title) + 2}}"
        rows.append(row)
    return rows


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):,.0f} [{min(values):,.0f}, {max(values):,.0f}]"
