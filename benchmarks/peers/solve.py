"""CartPole-v1 by SB3's PPO until it is solved, as a script of its users would: solve.py SEED [both]. One JSON line.

As gymlab's recipe does: 20 greedy episodes after every 10,000 env steps, and at 500 a hundred more that confirm it;
with `both` also as many sampled ones each time, which gymlab always plays.
"""

import json
import sys

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
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
means: list[float] = []  # of the last hundred episodes: greedy, sampled


def play_hundred() -> None:
    ways = (True, False) if both else (True,)
    means[:] = [float(evaluate_policy(model, shown, n_eval_episodes=100, deterministic=way)[0]) for way in ways]


class Confirmed(BaseCallback):
    """Ends training where a hundred episodes confirm the twenty; SB3's own stops at the first twenty."""

    def _on_step(self) -> bool:
        if self.parent.last_mean_reward < 500:
            return True
        play_hundred()
        return means[0] < 500


often = {"n_eval_episodes": 20, "eval_freq": 10_000 // n_envs, "verbose": 0}
watch = [EvalCallback(shown, deterministic=False, **often)] if both else []
greedy = EvalCallback(shown, callback_after_eval=Confirmed(), deterministic=True, **often)
model.learn(100_000, callback=[*watch, greedy])
if means[:1] != [500.0]:
    play_hundred()
print(json.dumps({"env_steps": model.num_timesteps, "greedy": means[0]}))
