"""RL-Zoo's PPO settings, as the peers take them: how many envs, the policy, and the arguments."""

CARTPOLE = {
    "n_steps": 32, "batch_size": 256, "n_epochs": 20, "gamma": 0.98, "gae_lambda": 0.8,
    "learning_rate": lambda p: 1e-3 * p, "clip_range": lambda p: 0.2 * p,
}  # fmt: skip
LANDER = {"n_steps": 1024, "batch_size": 64, "n_epochs": 4, "gamma": 0.999, "gae_lambda": 0.98, "ent_coef": 0.01}
ATARI = {
    "n_steps": 128, "batch_size": 256, "n_epochs": 4, "ent_coef": 0.01,
    "learning_rate": lambda p: 2.5e-4 * p, "clip_range": lambda p: 0.1 * p,
}  # fmt: skip
ZOO = {
    "CartPole-v1": (8, "MlpPolicy", CARTPOLE),
    "LunarLander-v3": (16, "MlpPolicy", LANDER),
    "ALE/Pong-v5": (8, "CnnPolicy", ATARI),
    "ALE/Breakout-v5": (8, "CnnPolicy", ATARI),
}
