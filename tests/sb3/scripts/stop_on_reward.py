"""The callbacks page: stop once an evaluation reaches a threshold (PPO and CartPole in place of SAC and Pendulum)."""

import gymnasium as gym

from gymlab import PPO
from gymlab.sb3 import EvalCallback, StopTrainingOnRewardThreshold

eval_env = gym.make("CartPole-v1")
callback_on_best = StopTrainingOnRewardThreshold(reward_threshold=150, verbose=1)
eval_callback = EvalCallback(eval_env, callback_on_new_best=callback_on_best, verbose=1)

model = PPO("MlpPolicy", "CartPole-v1", verbose=1, seed=0)
model.learn(int(1e10), callback=eval_callback)
