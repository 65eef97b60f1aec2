"""`n_steps: auto` and `n_steps: auto_reward_gap`: steps per update, measured on the env before a run begins.

Random actions and fixed seeds, so that the same recipe gives the same number everywhere.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from gymlab.algorithms.settings import AlgorithmSettings
from gymlab.core.errors import UserError
from gymlab.core.rng import episode_seed
from gymlab.envs.settings import EnvSettings
from gymlab.recipes.schema import check_rollout

CHOICES = ("auto", "auto_reward_gap")
PROBE_STEPS = 1000
ROLLOUT = 2048  # `auto` asks for at least this many steps of all envs together
FEWEST = 8


class RewardProbe(NamedTuple):
    """How often rewards come and episodes end under random actions."""

    steps: int
    episode: float  # mean steps of an episode
    gap: float  # mean steps between two informative rewards


class StepsChoice(NamedTuple):
    n_steps: int
    note: str


def choose(
    how: str, env: EnvSettings, imports: tuple[str, ...], settings: AlgorithmSettings, n_envs: int
) -> StepsChoice:
    """The smallest power of two that covers the gap between rewards, or what the algorithm accepts near it.

    `auto` also asks for `ROLLOUT` steps of all envs together.
    """
    rewards = probe(env, imports)
    target = max(rewards.gap, FEWEST, ROLLOUT / n_envs if how == "auto" else 0)
    n_steps = fitting_n_steps(settings, n_envs, 1 << max(0, int(target - 1e-9)).bit_length())
    if n_steps is None:
        raise UserError(
            f"{how}: no rollout of {n_envs} envs with about {target:.0f} steps fits the algorithm's settings"
        )
    measured = (
        f"in {rewards.steps} random steps rewards came every {rewards.gap:.4g}, "
        f"episodes ended every {rewards.episode:.4g}"
    )
    at_least = f"; {n_envs} envs together collect at least {ROLLOUT}" if how == "auto" else ""
    return StepsChoice(n_steps, f"n_steps: {how} is {n_steps}: {measured}{at_least}")


def probe(env: EnvSettings, imports: tuple[str, ...] = (), steps: int = PROBE_STEPS) -> RewardProbe:
    """Act at random. A step is informative if it ends the episode or its reward is not the most common one."""
    from gymlab.envs.make import make_env

    playing = make_env(env, imports=imports)
    rewards: list[float] = []
    ends: list[bool] = []
    try:
        playing.action_space.seed(0)
        playing.reset(seed=episode_seed(0, 0, 0))
        for _ in range(steps):
            _, reward, terminated, truncated, _ = playing.step(playing.action_space.sample())
            rewards.append(float(reward))
            ends.append(terminated or truncated)
            if ends[-1]:
                playing.reset(seed=episode_seed(0, 0, sum(ends)))
    finally:
        playing.close()
    usual, _ = Counter(rewards).most_common(1)[0]
    informative = sum(end or reward != usual for reward, end in zip(rewards, ends, strict=True))
    return RewardProbe(steps, steps / max(1, sum(ends)), steps / max(1, informative))


def fitting_n_steps(settings: AlgorithmSettings, n_envs: int, target: int) -> int | None:
    """The largest n_steps up to `target` that the algorithm accepts, else the next above; None where none is near."""
    for n_steps in (*range(target, 0, -1), *range(target + 1, 2 * target + 65)):
        try:
            check_rollout(settings, n_envs, n_steps)
        except ValueError:
            continue
        return n_steps
    return None
