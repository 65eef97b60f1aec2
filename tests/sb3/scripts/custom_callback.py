"""The callbacks page: a callback of one's own, every hook of it."""

from gymlab import PPO
from gymlab.sb3 import BaseCallback


class CustomCallback(BaseCallback):
    def __init__(self, verbose=0):
        super().__init__(verbose)
        self.seen = []

    def _on_training_start(self) -> None:
        self.seen.append("training_start")

    def _on_rollout_start(self) -> None:
        self.seen.append("rollout_start")

    def _on_step(self) -> bool:
        assert self.locals["rewards"].shape == (self.training_env.num_envs,)
        self.logger.record("custom/steps", self.num_timesteps)
        return True

    def _on_rollout_end(self) -> None:
        self.seen.append("rollout_end")

    def _on_training_end(self) -> None:
        self.seen.append("training_end")


callback = CustomCallback()
model = PPO("MlpPolicy", "CartPole-v1", verbose=1)
model.learn(2048, callback=callback)
assert callback.seen == ["training_start", "rollout_start", "rollout_end", "training_end"]
assert callback.n_calls == 2048
