"""A peer's PPO on a given work, run by the peer's own Python: peer_script.py WORK. Prints one JSON line.

It stands alone: gymlab is not installed there. WORK is JSON, see `gymlab.campaigns.bench.peer.PeerWork`.
"""

import json
import os
import sys
import time
from typing import Any

WORK = json.loads(sys.argv[1])


def value(written: Any) -> Any:
    """A number, or a function of the share that is left: `{"linear": x}` falls from x to 0."""
    return (lambda left: left * written["linear"]) if isinstance(written, dict) else written


def environments() -> Any:
    from stable_baselines3.common.env_util import make_atari_env, make_vec_env
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack

    env = WORK["env"]
    n_envs = WORK["n_envs"]
    kind = SubprocVecEnv if WORK["processes"] else DummyVecEnv
    if not WORK["pictures"]:
        return make_vec_env(env, n_envs=n_envs, seed=0, vec_env_cls=kind)
    import ale_py
    import gymnasium

    gymnasium.register_envs(ale_py)
    game = f"{env[4:-3]}NoFrameskip-v4"  # the peer's wrapper skips frames itself
    return VecFrameStack(make_atari_env(game, n_envs=n_envs, seed=0, vec_env_cls=kind), n_stack=4)


def main() -> None:
    network = dict(WORK["network"])
    settings = {name: value(written) for name, written in WORK["settings"].items()}
    if WORK["peer"] == "sb3":
        import torch
        from stable_baselines3 import PPO

        torch.set_num_threads((os.cpu_count() or 1) if WORK["pictures"] else 1)  # each its fastest setting
        activations = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}
        if "activation_fn" in network:
            network["activation_fn"] = activations[network["activation_fn"]]
    else:
        from sbx import PPO

        network = {}  # its defaults are the same two layers of 64 with tanh
        if callable(settings.get("clip_range")):
            settings["clip_range"] = 0.2  # it takes no schedule
    from stable_baselines3.common.callbacks import BaseCallback

    class RolloutClock(BaseCallback):
        """When the second rollout began: everything before it is start-up."""

        first: Any = None

        def _on_rollout_start(self) -> None:
            if self.num_timesteps and self.first is None:
                self.first = (time.perf_counter(), self.num_timesteps)

        def _on_step(self) -> bool:
            return True

    policy = "CnnPolicy" if WORK["pictures"] else "MlpPolicy"
    model = PPO(policy, environments(), seed=0, device="cpu", policy_kwargs=network or None, **settings)
    clock = RolloutClock()
    model.learn(WORK["steps"], callback=clock)
    then, steps = clock.first
    print(json.dumps({"steps_per_second": (model.num_timesteps - steps) / (time.perf_counter() - then)}))


if __name__ == "__main__":
    main()
