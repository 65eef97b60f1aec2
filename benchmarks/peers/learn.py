"""SB3's PPO with RL-Zoo's settings, trained and then scored: learn.py ENV STEPS SEED, episode seeds as JSON on stdin.

Prints one JSON line: the greedy return of each episode.
"""

import json
import sys
import time

import gymnasium
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

ENV, STEPS, SEED = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ZOO = {
    "Acrobot-v1": (16, True, {"n_steps": 256, "n_epochs": 4, "gamma": 0.99, "gae_lambda": 0.94, "ent_coef": 0.0}),
    "LunarLander-v3": (
        16,
        False,
        {"n_steps": 1024, "batch_size": 64, "n_epochs": 4, "gamma": 0.999, "gae_lambda": 0.98, "ent_coef": 0.01},
    ),
}


def main() -> None:
    torch.set_num_threads(1)  # its fastest setting for networks of this size
    n_envs, normalize, settings = ZOO[ENV]
    envs = make_vec_env(ENV, n_envs=n_envs, seed=SEED)
    if normalize:
        envs = VecNormalize(envs, gamma=settings["gamma"])
    began = time.perf_counter()
    model = PPO("MlpPolicy", envs, seed=SEED, device="cpu", **settings)
    model.learn(STEPS)
    seconds = time.perf_counter() - began

    def seen(obs):
        return envs.normalize_obs(obs) if normalize else obs

    returns = []
    env = gymnasium.make(ENV)
    for seed in json.load(sys.stdin):
        obs, total, ended = env.reset(seed=seed)[0], 0.0, False
        while not ended:
            action, _ = model.predict(seen(obs), deterministic=True)
            obs, reward, terminated, truncated, _ = env.step(int(action))
            total, ended = total + float(reward), terminated or truncated
        returns.append(total)
    print(json.dumps({"returns": returns, "seconds": seconds, "env_steps": model.num_timesteps}))


main()
