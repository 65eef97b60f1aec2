"""The playground's games, small enough to learn within a minute on one core, and their hyperparameter sliders."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class PlaygroundGame(NamedTuple):
    """A recipe with overrides that keep its updates short."""

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


_HELP = {
    "learning_rate": "how far the weights move per gradient step; 0 freezes the policy",
    "clip_range": "how far one update may move an action's probability (PPO)",
    "entropy_coef": "how much doubt is rewarded: more keeps the policy exploring",
    "value_coef": "how much the value's error counts beside the policy's",
    "gamma": "how much the future counts: 0 only sees the next reward",
    "gae_lambda": "0 trusts the value, 1 trusts the rewards that came",
    "max_grad_norm": "gradients longer than this are shortened",
    "target_kl": "an update ends early once the policy has moved this far",
}
_SHARES = ("gamma", "gae_lambda", "clip_range")
_TOP = {"entropy_coef": 0.2, "value_coef": 2.0, "max_grad_norm": 5.0, "target_kl": 0.2}


@dataclass(frozen=True)
class Slider:
    """Range 0 to `high`; logarithmic over `decades` powers of ten where that is not 0."""

    name: str
    value: float
    high: float
    decades: int
    help: str

    def place(self, value: float) -> float:
        """Position of a value, 0 to 1."""
        if not self.decades:
            return value / self.high
        return 0.0 if value <= 0 else max(0.0, 1 + math.log10(value / self.high) / self.decades)

    def at(self, place: float) -> float:
        """Value at a position from 0 to 1; position 0 is exactly 0."""
        if place <= 0:
            return 0.0
        value = self.high * 10 ** (self.decades * (min(1.0, place) - 1)) if self.decades else place * self.high
        return float(f"{value:.4g}")


def sliders(values: Mapping[str, float]) -> list[Slider]:
    """One slider for each scheduled hyperparameter, at its initial value."""
    found = []
    for name, value in values.items():
        decades = 5 if name == "learning_rate" else 0
        high = 1.0 if name in _SHARES else 0.1 if decades else max(_TOP.get(name, 1.0), 2 * value)
        found.append(Slider(name, value, high, decades, _HELP.get(name, "")))
    return found
