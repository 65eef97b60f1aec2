"""RL-Zoo's PPO settings, as the peers take them: how many envs, and the arguments. `linear` falls to 0."""

CARTPOLE = {
    "n_steps": 32, "batch_size": 256, "n_epochs": 20, "gamma": 0.98, "gae_lambda": 0.8,
    "learning_rate": {"linear": 1e-3}, "clip_range": {"linear": 0.2},
}  # fmt: skip
LANDER = {"n_steps": 1024, "batch_size": 64, "n_epochs": 4, "gamma": 0.999, "gae_lambda": 0.98, "ent_coef": 0.01}
ATARI = {
    "n_steps": 128, "batch_size": 256, "n_epochs": 4, "ent_coef": 0.01,
    "learning_rate": {"linear": 2.5e-4}, "clip_range": {"linear": 0.1},
}  # fmt: skip
ZOO = {
    "CartPole-v1": (8, CARTPOLE),
    "LunarLander-v3": (16, LANDER),
    "ALE/Pong-v5": (8, ATARI),
    "ALE/Breakout-v5": (8, ATARI),
}
