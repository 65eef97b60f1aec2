"""What users may subclass or name in their own code: `from gymlab.extend import PPOAlgorithm, Feature, Updated`.

Each name is imported when it is first asked for. With what `gymlab` itself exports this is the public API; everything
else is internal and may change without notice.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gymlab.algorithms.a2c import A2CAlgorithm, A2CSettings
    from gymlab.algorithms.base import ActorCriticAlgorithm, Algorithm, LearnerState
    from gymlab.algorithms.ppo import PPOAlgorithm, PPOSettings
    from gymlab.algorithms.reinforce import ReinforceAlgorithm, ReinforceSettings
    from gymlab.algorithms.settings import AlgorithmSettings
    from gymlab.core.types import Array, Decision, Masked, Rollout, Spaces, Tree, VecStep
    from gymlab.envs.transform import BaseTransform, Transform
    from gymlab.networks.encoders import Encoder
    from gymlab.training.events import (
        AlertCleared,
        AlertRaised,
        Checkpointed,
        Control,
        Ended,
        Evaluated,
        Event,
        Feature,
        Measured,
        Recorded,
        Snapshot,
        Started,
        Stopping,
        Updated,
    )

__all__ = [
    "A2CAlgorithm",
    "A2CSettings",
    "ActorCriticAlgorithm",
    "AlertCleared",
    "AlertRaised",
    "Algorithm",
    "AlgorithmSettings",
    "Array",
    "BaseTransform",
    "Checkpointed",
    "Control",
    "Decision",
    "Encoder",
    "Ended",
    "Evaluated",
    "Event",
    "Feature",
    "LearnerState",
    "Masked",
    "Measured",
    "PPOAlgorithm",
    "PPOSettings",
    "Recorded",
    "ReinforceAlgorithm",
    "ReinforceSettings",
    "Rollout",
    "Snapshot",
    "Spaces",
    "Started",
    "Stopping",
    "Transform",
    "Tree",
    "Updated",
    "VecStep",
]

_MODULES = {
    "gymlab.algorithms.a2c": ("A2CAlgorithm", "A2CSettings"),
    "gymlab.algorithms.base": ("ActorCriticAlgorithm", "Algorithm", "LearnerState"),
    "gymlab.algorithms.ppo": ("PPOAlgorithm", "PPOSettings"),
    "gymlab.algorithms.reinforce": ("ReinforceAlgorithm", "ReinforceSettings"),
    "gymlab.algorithms.settings": ("AlgorithmSettings",),
    "gymlab.core.types": ("Array", "Decision", "Masked", "Rollout", "Spaces", "Tree", "VecStep"),
    "gymlab.envs.transform": ("BaseTransform", "Transform"),
    "gymlab.networks.encoders": ("Encoder",),
}  # all others are in gymlab.training.events


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'gymlab.extend' has no attribute {name!r}")
    home = next((module for module, names in _MODULES.items() if name in names), "gymlab.training.events")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return __all__
