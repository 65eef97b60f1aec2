"""The Python API, shaped like Stable-Baselines3: its users' scripts run after changing their imports.

This package is a border: it builds a recipe and calls `experiment`, as the command line does.
"""

from __future__ import annotations

from typing import Any

from gymlab.core.errors import UserError
from gymlab.sb3.algorithms import A2C, PPO, REINFORCE
from gymlab.sb3.callbacks import (
    BaseCallback,
    CallbackList,
    CheckpointCallback,
    ConvertCallback,
    EventCallback,
    EveryNTimesteps,
    ProgressBarCallback,
    StopTrainingOnMaxEpisodes,
)
from gymlab.sb3.env_util import make_vec_env
from gymlab.sb3.eval_callbacks import EvalCallback, StopTrainingOnNoModelImprovement, StopTrainingOnRewardThreshold
from gymlab.sb3.evaluation import evaluate_policy
from gymlab.sb3.learner import SlowerEngine
from gymlab.sb3.monitor import Monitor
from gymlab.sb3.service import TrainedPolicy, load
from gymlab.sb3.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv

__all__ = [
    "A2C",
    "PPO",
    "REINFORCE",
    "BaseCallback",
    "CallbackList",
    "CheckpointCallback",
    "ConvertCallback",
    "DummyVecEnv",
    "EvalCallback",
    "EventCallback",
    "EveryNTimesteps",
    "Monitor",
    "ProgressBarCallback",
    "SlowerEngine",
    "StopTrainingOnMaxEpisodes",
    "StopTrainingOnNoModelImprovement",
    "StopTrainingOnRewardThreshold",
    "SubprocVecEnv",
    "TrainedPolicy",
    "VecEnv",
    "evaluate_policy",
    "load",
    "make_vec_env",
]

NOT_HERE = {
    "DQN": "gymlab has PPO, A2C and REINFORCE",
    "SAC": "gymlab has PPO, A2C and REINFORCE",
    "TD3": "gymlab has PPO, A2C and REINFORCE",
    "DDPG": "gymlab has PPO, A2C and REINFORCE",
    "VecNormalize": "give the model normalize=dict(obs=True, reward=True): its statistics are saved with it",
    "VecFrameStack": "use wrapper_class=gymnasium.wrappers.FrameStackObservation in make_vec_env",
    "VecMonitor": "make_vec_env puts a Monitor around every env",
    "VecVideoRecorder": "use gymnasium.wrappers.RecordVideo in the env",
    "check_env": "run `gymlab envs check ENV`, or gymnasium.utils.env_checker.check_env",
    "set_random_seed": "give the model a seed: no global random state is used",
    "make_atari_env": "there is no image policy yet",
    "configure": "learn(run=...) keeps every metric in a run",
}


def __getattr__(name: str) -> Any:
    """Say what to use in place of a name that SB3 has and gymlab has not."""
    if name in NOT_HERE:
        raise UserError(f"gymlab.sb3 has no {name}: {NOT_HERE[name]}")
    raise AttributeError(f"module 'gymlab.sb3' has no attribute {name!r}")
