"""The metrics of an update on their way out of compiled code: one array in there, numbers by name out here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from gymlab.core.types import Array, Histogram

if TYPE_CHECKING:
    from gymlab.training.agent import Agent


class Row(dict[str, float]):
    """The metrics of one update by name; what was not measured is not in it."""

    histograms: Mapping[str, Histogram] = MappingProxyType({})


def packed(metrics: dict[str, Array], more: Array | None) -> Array:
    """A row as one array: the metrics in their order, then more.

    Numbers that stand side by side in an array should do so among the metrics: XLA then takes them out of it at once.
    """
    numbers = jnp.stack([number.astype(jnp.float32) for number in metrics.values()])
    return numbers if more is None else jnp.concatenate([numbers, more])


def read_rows(agent: Agent, names: list[str], values: np.ndarray, looks: np.ndarray) -> list[Row]:
    """Packed rows of numbers by name, with the distributions of those updates that were looked at."""
    rows = [Row(zip(names, row, strict=True)) for row in values[:, : len(names)].tolist()]
    for i in np.flatnonzero(looks[: len(rows)]) if values.shape[1] > len(names) else ():
        taken, rows[i].histograms = agent.layout.unpack(values[i, len(names) :])
        rows[i] |= taken
    return rows
