"""The custom-policy and schedule examples: another network, a falling learning rate."""

from gymlab import PPO


class ReLU:
    """Stands for torch.nn.ReLU, which need not be installed."""


def linear_schedule(initial_value: float):
    def func(progress_remaining: float) -> float:
        return progress_remaining * initial_value

    return func


policy_kwargs = dict(activation_fn=ReLU, net_arch=dict(pi=[32, 32], vf=[32, 32]))
model = PPO(
    "MlpPolicy",
    "CartPole-v1",
    learning_rate=linear_schedule(0.001),
    policy_kwargs=policy_kwargs,
    n_steps=256,
    n_epochs=2,
)
model.learn(total_timesteps=1_024)
model.save("ppo_cartpole")
del model
model = PPO.load("ppo_cartpole")
