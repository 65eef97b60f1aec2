"""Vectorised envs: a list of functions, and a wrapper around each env of an id."""

import gymnasium as gym

from gymlab import PPO
from gymlab.sb3 import DummyVecEnv, make_vec_env

env = DummyVecEnv([lambda: gym.make("CartPole-v1")])
model = PPO("MlpPolicy", env)
model.learn(total_timesteps=2048)

limited = make_vec_env("CartPole-v1", n_envs=2, wrapper_class=gym.wrappers.TimeAwareObservation)
model = PPO("MlpPolicy", limited, n_steps=256, batch_size=64, n_epochs=2)
model.learn(total_timesteps=1024)
