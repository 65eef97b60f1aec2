"""A peer's PPO with RL-Zoo's settings: ppo.py sb3|sbx ENV STEPS [dummy|subproc]. Prints one JSON line."""

import json
import os
import sys
import time

from zoo import ZOO

PEER, ENV, STEPS = sys.argv[1], sys.argv[2], int(sys.argv[3])
PROCESSES = "subproc" in sys.argv
if PEER == "sb3":
    import torch
    from stable_baselines3 import PPO

    pictures = ZOO[ENV][1] == "CnnPolicy"
    torch.set_num_threads((os.cpu_count() or 1) if pictures else 1)  # each its fastest setting
else:
    from sbx import PPO
from stable_baselines3.common.callbacks import BaseCallback  # noqa: E402
from stable_baselines3.common.env_util import make_atari_env, make_vec_env  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack  # noqa: E402


class Clock(BaseCallback):
    """When the second rollout began: everything before it is start-up."""

    first = None

    def _on_rollout_start(self) -> None:
        if self.num_timesteps and self.first is None:
            self.first = (time.perf_counter(), self.num_timesteps)

    def _on_step(self) -> bool:
        return True


def main() -> None:
    n_envs, policy, settings = ZOO[ENV]
    if PEER == "sbx" and callable(settings.get("clip_range")):
        settings = {**settings, "clip_range": 0.2}  # it takes no schedule
    kind = SubprocVecEnv if PROCESSES else DummyVecEnv
    if ENV.startswith("ALE/"):
        import ale_py
        import gymnasium

        gymnasium.register_envs(ale_py)
        game = f"{ENV[4:-3]}NoFrameskip-v4"  # SB3's wrapper skips frames itself
        env = VecFrameStack(make_atari_env(game, n_envs=n_envs, seed=0, vec_env_cls=kind), n_stack=4)
    else:
        env = make_vec_env(ENV, n_envs=n_envs, seed=0, vec_env_cls=kind)
    model = PPO(policy, env, seed=0, device="cpu", **settings)
    clock = Clock()
    model.learn(STEPS, callback=clock)
    then, steps = clock.first
    print(json.dumps({"steps_per_second": (model.num_timesteps - steps) / (time.perf_counter() - then)}))


if __name__ == "__main__":
    main()
