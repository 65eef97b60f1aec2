"""The built-in algorithms, by name. Others are named by reference (`./my_ppo.py:MyPPO`)."""

from __future__ import annotations

from gymlab.algorithms.a2c import A2CAlgorithm
from gymlab.algorithms.base import Algorithm
from gymlab.algorithms.ppo import PPOAlgorithm
from gymlab.algorithms.reinforce import ReinforceAlgorithm

ALGORITHMS: dict[str, type[Algorithm]] = {"ppo": PPOAlgorithm, "a2c": A2CAlgorithm, "reinforce": ReinforceAlgorithm}
