"""Named parts of the training reward: whatever changes it keeps their sum equal to it."""

from __future__ import annotations

from gymlab.core.types import Array, VecStep

ENV = "env"
"""The part that the env itself pays."""


def add_part(step: VecStep, name: str, amount: Array) -> VecStep:
    """The step with `amount` (N,) added to what learning sees, under a name."""
    parts = dict(step.components) or {ENV: step.train_reward}
    parts[name] = parts[name] + amount if name in parts else amount
    return step._replace(train_reward=step.train_reward + amount, components=parts)
