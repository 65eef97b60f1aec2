"""The examples page: train, save, load with an env, evaluate, watch (PPO in place of DQN)."""

import gymnasium as gym

from gymlab import PPO
from gymlab.sb3 import evaluate_policy

env = gym.make("CartPole-v1", render_mode="rgb_array")

model = PPO("MlpPolicy", env, verbose=1)
model.learn(total_timesteps=int(4e3), progress_bar=True)  # 2e5 in the documentation
model.save("dqn_lunar")
del model

model = PPO.load("dqn_lunar", env=env)

mean_reward, std_reward = evaluate_policy(model, model.get_env(), n_eval_episodes=10)

vec_env = model.get_env()
obs = vec_env.reset()
for _ in range(200):  # 1000 in the documentation
    action, _states = model.predict(obs, deterministic=True)
    obs, rewards, dones, info = vec_env.step(action)
    vec_env.render("human")
