"""What can be trained on the page: ported envs that show something within a minute on one core."""

from __future__ import annotations

from typing import NamedTuple


class PlaygroundGame(NamedTuple):
    """A recipe and what is changed in it, so that an update takes a moment and can be watched."""

    recipe: str
    overrides: tuple[str, ...] = ()
    about: str = ""


_SMALL = ("metrics.statistics=basic",)
GAMES: dict[str, PlaygroundGame] = {
    "CartPole": PlaygroundGame("CartPole-v1:ppo", _SMALL, "balance a pole: 500 is the most"),
    "CartPole, A2C": PlaygroundGame(
        "CartPole-v1:a2c", _SMALL, "the same with A2C: no clipping, one pass over the data"
    ),
    "CartPole, REINFORCE": PlaygroundGame("CartPole-v1:reinforce", _SMALL, "the same with whole episodes' returns"),
    "FrozenLake": PlaygroundGame(
        "FrozenLake-v1:ppo", (*_SMALL, "env.kwargs.is_slippery=false"), "cross the ice: 1 is the most"
    ),
    "FrozenLake, slippery": PlaygroundGame("FrozenLake-v1:ppo", _SMALL, "the same with chance: about 0.74 is the most"),
    "CliffWalking": PlaygroundGame("CliffWalking-v1:ppo", _SMALL, "walk along a cliff: -13 is the most"),
    "Acrobot": PlaygroundGame("Acrobot-v1:ppo", _SMALL, "swing up: about -80 is good"),
    "Bandit": PlaygroundGame("Bandit-v0:ppo", _SMALL, "ten arms, one of them pays best"),
}
