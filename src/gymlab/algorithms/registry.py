"""The algorithms that ship, by name. Others are given by reference (`./my_ppo.py:MyPPO`)."""

from __future__ import annotations

from gymlab.algorithms.a2c import A2C
from gymlab.algorithms.base import Algorithm
from gymlab.algorithms.ppo import PPO
from gymlab.algorithms.reinforce import Reinforce

ALGORITHMS: dict[str, type[Algorithm]] = {"ppo": PPO, "a2c": A2C, "reinforce": Reinforce}
