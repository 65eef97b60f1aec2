"""The Python API, shaped like Stable-Baselines3: its users' scripts run after changing their imports.

It builds a recipe and trains it with `session`, as the command line does.
"""

from __future__ import annotations

from typing import Any

from gymlab.core.errors import UserError
from gymlab.sb3.callbacks import (
    BaseCallback,
    CallbackList,
    CheckpointCallback,
    ConvertCallback,
    EvalCallback,
    EventCallback,
    EveryNTimesteps,
    ProgressBarCallback,
    StopTrainingOnMaxEpisodes,
    StopTrainingOnNoModelImprovement,
    StopTrainingOnRewardThreshold,
)
from gymlab.sb3.evaluation import evaluate_policy
from gymlab.sb3.model import A2C, PPO, REINFORCE, SlowerEngine
from gymlab.sb3.monitor import Monitor
from gymlab.sb3.trained_policy import TrainedPolicy, load
from gymlab.sb3.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv, make_vec_env

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
    """UserError with the replacement for a name of SB3 that gymlab lacks."""
    if name in NOT_HERE:
        raise UserError(f"gymlab.sb3 has no {name}: {NOT_HERE[name]}")
    raise AttributeError(f"module 'gymlab.sb3' has no attribute {name!r}")
