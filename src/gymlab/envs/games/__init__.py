"""Games: envs of our own and of optional packages, registered with Gymnasium when this package is imported."""

from __future__ import annotations

import gymnasium

from gymlab.envs.games import minatar
from gymlab.envs.games.bandit import EPISODE_STEPS


def register() -> None:
    """Make `Bandit-v0` and MinAtar's games known to gymnasium.make; a second call changes nothing."""
    if "Bandit-v0" not in gymnasium.registry:
        gymnasium.register(
            "Bandit-v0", entry_point="gymlab.envs.games.bandit:BanditEnv", max_episode_steps=EPISODE_STEPS
        )
    minatar.register()


register()
