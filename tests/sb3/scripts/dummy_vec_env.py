"""Vectorised envs: a list of functions, and what an info holds when an episode ends."""

import gymnasium as gym

from gymlab import PPO
from gymlab.sb3 import DummyVecEnv

env = DummyVecEnv([lambda: gym.make("CartPole-v1")])
model = PPO("MlpPolicy", env)
model.learn(total_timesteps=2048)

obs = env.reset()
for _ in range(200):
    action, _states = model.predict(obs, deterministic=True)
    obs, rewards, dones, infos = env.step(action)
    if dones[0]:
        assert infos[0]["terminal_observation"].shape == (4,)
