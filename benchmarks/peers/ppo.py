"""A peer's PPO with RL-Zoo's settings: ppo.py sb3|sbx ENV STEPS. Prints one JSON line."""

import json
import sys
import time

began = time.perf_counter()
PEER, ENV, STEPS = sys.argv[1], sys.argv[2], int(sys.argv[3])
if PEER == "sb3":
    import torch
    from stable_baselines3 import PPO

    torch.set_num_threads(1)  # its fastest setting for networks of this size
else:
    from sbx import PPO
from stable_baselines3.common.callbacks import BaseCallback  # noqa: E402
from stable_baselines3.common.env_util import make_vec_env  # noqa: E402

CARTPOLE = {
    "n_steps": 32, "batch_size": 256, "n_epochs": 20, "gamma": 0.98, "gae_lambda": 0.8,
    "learning_rate": lambda p: 1e-3 * p, "clip_range": lambda p: 0.2 * p,
}  # fmt: skip
LANDER = {"n_steps": 1024, "batch_size": 64, "n_epochs": 4, "gamma": 0.999, "gae_lambda": 0.98, "ent_coef": 0.01}
ZOO = {"CartPole-v1": (8, CARTPOLE), "LunarLander-v3": (16, LANDER)}


class Clock(BaseCallback):
    """When the second rollout began: everything before it is start-up."""

    first = None

    def _on_rollout_start(self) -> None:
        if self.num_timesteps and self.first is None:
            self.first = (time.perf_counter(), self.num_timesteps)

    def _on_step(self) -> bool:
        return True


n_envs, settings = ZOO[ENV]
if PEER == "sbx":
    settings = {**settings, "clip_range": 0.2} if ENV == "CartPole-v1" else settings
model = PPO("MlpPolicy", make_vec_env(ENV, n_envs=n_envs, seed=0), seed=0, device="cpu", **settings)
clock = Clock()
model.learn(STEPS, callback=clock)
end = time.perf_counter()
then, steps = clock.first
speed = (model.num_timesteps - steps) / (end - then)
print(json.dumps({"steps_per_second": speed, "whole_process_seconds": end - began}))
