"""The three algorithms under the names that scripts import."""

from __future__ import annotations

from gymlab.sb3 import arguments
from gymlab.sb3.learner import Learner


class PPO(Learner):
    """Proximal policy optimisation, with Stable-Baselines3's arguments and defaults."""

    ALGORITHM = "ppo"
    ARGUMENTS = arguments.PPO


class A2C(Learner):
    """Advantage actor-critic, with Stable-Baselines3's arguments and defaults."""

    ALGORITHM = "a2c"
    ARGUMENTS = arguments.A2C
    LOG_INTERVAL = 100


class REINFORCE(Learner):
    """Monte-Carlo policy gradient over whole episodes; SB3 has none, so the arguments are of its kind."""

    ALGORITHM = "reinforce"
    ARGUMENTS = arguments.REINFORCE


MODELS = {model.__name__: model for model in (PPO, A2C, REINFORCE)}
