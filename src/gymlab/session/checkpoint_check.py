"""Going on from a checkpoint takes all of it: what lies beside the tensors is checked as they are, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gymlab.core.clock import Clock
from gymlab.core.errors import RunError
from gymlab.training.events import Feature

# `stateful` names the features that kept a state, so that one which is gone is missed.
_INFO = ("recipe", "seed", "clock", "features", "stateful", "horizon", "fingerprint", "metrics")


def check_whole(info: Mapping[str, Any]) -> None:
    """RunError where a checkpoint lacks something that going on needs: nothing is taken for granted."""
    missing = [name for name in _INFO if name not in info]
    missing += [f"clock.{name}" for name in Clock._fields if name not in info.get("clock", Clock._fields)]
    missing += [f"features.{name}" for name in info.get("stateful", ()) if name not in info.get("features", ())]
    if missing:
        raise RunError(f"the checkpoint lacks {', '.join(missing)}: it cannot be continued from")


def restore_features(features: Sequence[Feature], states: Mapping[str, dict[str, Any]]) -> None:
    """Bring every feature that kept a state to where it was."""
    for feature in features:
        try:
            if feature.name in states:
                feature.restore(states[feature.name])
        except KeyError as error:
            lacking = f"features.{feature.name}.{error.args[0]}"
            raise RunError(f"the checkpoint lacks {lacking}: it cannot be continued from") from error
