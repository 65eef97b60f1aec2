"""`evaluate_policy`: a model's mean return over some episodes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from gymlab.core.errors import UserError
from gymlab.sb3.monitor import Monitor
from gymlab.sb3.vec_env import VecEnv, as_vec_env

StepCallback = Callable[[dict[str, Any], dict[str, Any]], Any]


def evaluate_policy(
    model: Any,
    env: Any,
    n_eval_episodes: int = 10,
    deterministic: bool = True,
    render: bool = False,
    callback: StepCallback | None = None,
    reward_threshold: float | None = None,
    return_episode_rewards: bool = False,
    warn: bool = True,
) -> Any:
    """Mean and std of the return, or the returns and lengths of all episodes.

    Every env of a vec env plays its share of the episodes, so that short ones do not count more often. A Monitor's
    numbers are used where the env has one. After every step of an env that still plays, `callback` gets a dict with
    SB3's names: `observations` is what was acted on, `actions`, `rewards`, `dones`, `infos` and `new_observations` what
    came of it; `i`, `reward`, `done`, `info` are that env's.
    """
    if n_eval_episodes < 1:
        raise UserError(f"evaluate_policy: n_eval_episodes={n_eval_episodes} must be at least 1")
    vec_env = as_vec_env(env)
    if warn:
        _warn_of_changed_rewards(vec_env)
    returns, lengths = _play(
        model, vec_env, n_eval_episodes, deterministic, _per_step(vec_env, callback, render=render)
    )
    mean = float(np.mean(returns))
    std = float(np.std(returns))
    if reward_threshold is not None and not mean > reward_threshold:
        raise AssertionError(f"Mean reward below threshold: {mean:.2f} < {reward_threshold:.2f}")
    return (returns, lengths) if return_episode_rewards else (mean, std)


def _play(
    model: Any, env: VecEnv, episodes: int, deterministic: bool, after: Callable[[dict[str, Any]], None]
) -> tuple[list[float], list[int]]:
    n = env.num_envs
    quota = np.array([(episodes + i) // n for i in range(n)])
    done_by = np.zeros(n, int)
    total = np.zeros(n)
    length = np.zeros(n, int)
    returns: list[float] = []
    lengths: list[int] = []
    obs = env.reset()
    state = None
    starts = np.ones(n, bool)
    while (done_by < quota).any():
        actions, state = model.predict(obs, state=state, episode_start=starts, deterministic=deterministic)
        new_obs, rewards, dones, infos = env.step(actions)
        total += rewards
        length += 1
        starts = dones
        seen = {
            "model": model,
            "n_envs": n,
            "n_eval_episodes": episodes,
            "deterministic": deterministic,
            "observations": obs,
            "actions": actions,
            "states": state,
            "new_observations": new_obs,
            "rewards": rewards,
            "dones": dones,
            "infos": infos,
            "current_rewards": total,
            "current_lengths": length,
            "episode_rewards": returns,
            "episode_lengths": lengths,
            "episode_counts": done_by,
            "episode_count_targets": quota,
            "episode_starts": starts,
        }
        for i in np.flatnonzero(done_by < quota):
            after({**seen, "i": int(i), "reward": rewards[i], "done": bool(dones[i]), "info": infos[i]})
            if dones[i]:
                monitored = infos[i].get("episode")
                returns.append(float(monitored["r"] if monitored else total[i]))
                lengths.append(int(monitored["l"] if monitored else length[i]))
                done_by[i] += 1
        total[dones] = 0.0
        length[dones] = 0
        obs = new_obs
    return returns, lengths


def _per_step(env: VecEnv, callback: StepCallback | None, *, render: bool) -> Callable[[dict[str, Any]], None]:
    def after(facts: dict[str, Any]) -> None:
        if callback is not None:
            callback({"env": env, **facts}, {})
        if render and facts["i"] == 0:
            env.render()

    return after


def _warn_of_changed_rewards(env: VecEnv) -> None:
    """Only where a wrapper may change rewards does the lack of a Monitor matter."""
    changed = env.env_is_wrapped(gymnasium.RewardWrapper)
    if any(changed) and not all(env.env_is_wrapped(Monitor)):
        warnings.warn(
            "evaluate_policy: a wrapper changes the env's rewards, so the returns are not the env's own: "
            "put Monitor(env) inside it",
            UserWarning,
            stacklevel=3,
        )
