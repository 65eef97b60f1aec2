"""CartPole-v1 by SB3's PPO until it is solved, as a script of its users would: solve.py SEED [both]. One JSON line.

As gymlab's recipe does: 20 greedy episodes after every 10,000 env steps, and at 500 a hundred more that confirm it;
with `both` also as many sampled ones each time, which gymlab always plays.
"""

import json
import sys

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import EvalCallback, StopTrainingOnRewardThreshold
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from zoo import ZOO

torch.set_num_threads(1)
seed, both = int(sys.argv[1]), sys.argv[2:] == ["both"]
n_envs, written = ZOO["CartPole-v1"]
settings = {
    name: (lambda left, start=value["linear"]: left * start) if isinstance(value, dict) else value
    for name, value in written.items()
}
model = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=n_envs, seed=seed), seed=seed, device="cpu", **settings)
shown = make_vec_env("CartPole-v1", n_envs=20, seed=10_000)
stop = StopTrainingOnRewardThreshold(reward_threshold=500)
often = {"n_eval_episodes": 20, "eval_freq": 10_000 // n_envs, "verbose": 0}
watch = [EvalCallback(shown, deterministic=False, **often)] if both else []
model.learn(100_000, callback=[*watch, EvalCallback(shown, stop, deterministic=True, **often)])
ways = (True, False) if both else (True,)
means = [evaluate_policy(model, shown, n_eval_episodes=100, deterministic=greedy)[0] for greedy in ways]
print(json.dumps({"env_steps": model.num_timesteps, "greedy": float(means[0])}))
