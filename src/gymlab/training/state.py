"""Everything a run needs to continue, as one value."""

from __future__ import annotations

from typing import NamedTuple

from gymlab.core.types import Array, Tree
from gymlab.networks.normalizer import Normaliser
from gymlab.training.env_state import GroupState


class Policy(NamedTuple):
    """All that acting needs: never the optimiser."""

    weights: Tree
    normaliser: Normaliser


class Skipped(NamedTuple):
    """Updates that were not applied because their numbers went bad."""

    total: Array  # ()
    in_a_row: Array  # ()


class TrainState(NamedTuple):
    """Arrays only. The clocks travel beside it, as whole numbers."""

    algorithm: Tree
    normaliser: Normaliser
    groups: tuple[GroupState, ...]
    key: Array  # every random stream of the run is derived from this and from the update's number
    skipped: Skipped | None = None  # counted only under `on_nan: skip`
