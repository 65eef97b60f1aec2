"""Gymnasium's own loop, with the env that the model was trained on."""

import gymnasium as gym

from gymlab import PPO

env = gym.make("CartPole-v1")
model = PPO("MlpPolicy", env).learn(total_timesteps=2048)

obs, info = env.reset(seed=0)
for _ in range(200):
    action, _states = model.predict(obs, deterministic=True)
    obs, reward, terminated, truncated, info = env.step(action)
    if terminated or truncated:
        obs, info = env.reset()
env.close()
