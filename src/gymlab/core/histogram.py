"""A histogram as a value: equal bins between two edges, and how many samples fell into each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Histogram(NamedTuple):
    """All samples alike: `low` equals `high`, and they are in the first bin."""

    low: float
    high: float
    counts: tuple[int, ...]

    @property
    def edges(self) -> np.ndarray:
        """(bins + 1,) where the bins begin and end."""
        return np.linspace(self.low, self.high, len(self.counts) + 1)
