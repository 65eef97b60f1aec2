"""Getting started: train A2C on an env object, then watch it through the model's own vec env."""

import gymnasium as gym

from gymlab import A2C

env = gym.make("CartPole-v1", render_mode="rgb_array")

model = A2C("MlpPolicy", env, verbose=1)
model.learn(total_timesteps=5_000)  # 10_000 in the documentation

vec_env = model.get_env()
obs = vec_env.reset()
for _ in range(200):  # 1000 in the documentation
    action, _state = model.predict(obs, deterministic=True)
    obs, reward, done, info = vec_env.step(action)
    vec_env.render("human")
