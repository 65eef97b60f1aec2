"""`n_steps: auto` and `n_steps: auto_reward_gap`: steps per update, measured on the env before a run begins.

Random actions and fixed seeds, so that the same recipe comes to the same number everywhere.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from gymlab.algorithms.settings import AlgorithmSettings
from gymlab.core.errors import UserError
from gymlab.core.rng import episode_seed
from gymlab.envs.settings import EnvSettings
from gymlab.recipes.rollouts import fitting_n_steps

CHOICES = ("auto", "auto_reward_gap")
PROBE_STEPS = 1000
ROLLOUT = 2048  # steps of all envs together that `auto` wants at least
FEWEST = 8


class Probe(NamedTuple):
    """What random play shows of an env's rewards."""

    steps: int
    episode: float  # mean steps of an episode
    gap: float  # mean steps between two rewards that tell something


class Choice(NamedTuple):
    n_steps: int
    note: str


def choose(how: str, env: EnvSettings, imports: tuple[str, ...], settings: AlgorithmSettings, n_envs: int) -> Choice:
    """The smallest power of two that covers the gap between rewards, or what the algorithm accepts near it.

    `auto` also wants `ROLLOUT` steps of all envs together.
    """
    seen = probe(env, imports)
    wanted = max(seen.gap, FEWEST, ROLLOUT / n_envs if how == "auto" else 0)
    n_steps = fitting_n_steps(settings, n_envs, 1 << max(0, int(wanted - 1e-9)).bit_length())
    if n_steps is None:
        raise UserError(
            f"{how}: no rollout of {n_envs} envs with about {wanted:.0f} steps fits the algorithm's settings"
        )
    seldom = f"in {seen.steps} random steps rewards came every {seen.gap:.4g}, episodes ended every {seen.episode:.4g}"
    at_least = f"; {n_envs} envs are to give {ROLLOUT}" if how == "auto" else ""
    return Choice(n_steps, f"n_steps: {how} is {n_steps}: {seldom}{at_least}")


def probe(env: EnvSettings, imports: tuple[str, ...] = (), steps: int = PROBE_STEPS) -> Probe:
    """Play at random. A reward tells something where it is not the usual one, as +1 a step is; and so does an end."""
    from gymlab.envs.make import make_env

    made = make_env(env, imports=imports)
    rewards: list[float] = []
    ends: list[bool] = []
    try:
        made.action_space.seed(0)
        made.reset(seed=episode_seed(0, 0, 0))
        for _ in range(steps):
            _, reward, terminated, truncated, _ = made.step(made.action_space.sample())
            rewards.append(float(reward))
            ends.append(terminated or truncated)
            if ends[-1]:
                made.reset(seed=episode_seed(0, 0, sum(ends)))
    finally:
        made.close()
    usual, _ = Counter(rewards).most_common(1)[0]
    telling = sum(end or reward != usual for reward, end in zip(rewards, ends, strict=True))
    return Probe(steps, steps / max(1, sum(ends)), steps / max(1, telling))
