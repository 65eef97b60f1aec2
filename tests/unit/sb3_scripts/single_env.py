"""Gymnasium's own loop, with a model that was trained on the env's id."""

import gymnasium as gym

from gymlab import PPO

model = PPO("MlpPolicy", "CartPole-v1").learn(total_timesteps=2048)

env = gym.make("CartPole-v1")
obs, info = env.reset(seed=0)
for _ in range(200):
    action, _states = model.predict(obs, deterministic=True)
    obs, reward, terminated, truncated, info = env.step(action)
    if terminated or truncated:
        obs, info = env.reset()
env.close()
