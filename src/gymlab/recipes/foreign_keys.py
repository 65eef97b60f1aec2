"""What people call our keys elsewhere."""

from __future__ import annotations

# An entry that begins with a dot lies in the algorithm's block.
FOREIGN_KEYS = {
    "hidden_dims": "policy.hidden",
    "hidden_sizes": "policy.hidden",
    "net_arch": "policy.hidden",
    "policy_kwargs": "policy",
    "activation_fn": "policy.activation",
    "use_sde": "policy.exploration",
    "sde_sample_freq": "policy.gsde_every",
    "n_timesteps": "budget",
    "total_timesteps": "budget",
    "max_env_steps": "budget",
    "max_timesteps": "budget",
    "num_envs": "n_envs",
    "num_steps": "n_steps",
    "ent_coef": ".entropy_coef",
    "vf_coef": ".value_coef",
    "n_epochs": ".epochs",
    "update_epochs": ".epochs",
    "lr": ".learning_rate",
    "clip_coef": ".clip_range",
    "clip_range_vf": ".value_clip",
    "minibatch_size": ".batch_size",
    "normalize_advantages": ".normalize_advantage",
    "reward_threshold": "env.solved_at",
    "env_id": "env.id",
    "env_kwargs": "env.kwargs",
    "env_wrapper": "env.wrappers",
    "frame_stack": "env.wrappers",
    "eval_freq": "eval.every",
    "n_eval_episodes": "eval.episodes",
    "save_freq": "checkpoints.every",
}

ADVICE = {
    "algorithm": "the block's name is the algorithm, as in `ppo: {}`",
    "algo": "the block's name is the algorithm, as in `ppo: {}`",
    "algo_id": "the block's name is the algorithm, as in `ppo: {}`",
    "seed": "a recipe holds no seed of the run: give --seed on the command line, or eval.seed",
}


def foreign(key: str, algorithm: str | None) -> str | None:
    """How a key from elsewhere is written here, if we know."""
    if key in ADVICE:
        return ADVICE[key]
    ours = FOREIGN_KEYS.get(key)
    if ours is None:
        return None
    return f"here it is called '{(algorithm or 'ppo') + ours if ours.startswith('.') else ours}'"
