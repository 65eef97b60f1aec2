"""Which numbers a learner may move, how far, and what each does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

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
    """From 0 to `high`; where `decades` is not 0 the way between goes by powers of ten."""

    name: str
    value: float
    high: float
    decades: int
    help: str

    def place(self, value: float) -> float:
        """Where a value stands, from 0 to 1."""
        if not self.decades:
            return value / self.high
        return 0.0 if value <= 0 else max(0.0, 1 + math.log10(value / self.high) / self.decades)

    def at(self, place: float) -> float:
        """The value at a place from 0 to 1; the left end is 0 itself."""
        if place <= 0:
            return 0.0
        value = self.high * 10 ** (self.decades * (min(1.0, place) - 1)) if self.decades else place * self.high
        return float(f"{value:.4g}")


def sliders(values: Mapping[str, float]) -> list[Slider]:
    """One for each number that enters compiled code, at the value it starts with."""
    found = []
    for name, value in values.items():
        decades = 5 if name == "learning_rate" else 0
        high = 1.0 if name in _SHARES else 0.1 if decades else max(_TOP.get(name, 1.0), 2 * value)
        found.append(Slider(name, value, high, decades, _HELP.get(name, "")))
    return found
