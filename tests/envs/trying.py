"""Trying a recipe in this process: two updates, an evaluation, and a resume beside the run that went on."""

from __future__ import annotations

import numpy as np

from gymlab.core.clock import Clock
from gymlab.recipes.resolve import resolve
from gymlab.session.build import build

TINY = ["n_envs=2", "n_steps=8", "statistics=basic", "eval.episodes=1", "env.max_episode_steps=12"]
PPO = ["batch_size=16", "epochs=1"]


def try_recipe(recipe: str, *changes: str) -> list[str]:
    """Why its resume was not exact; nothing where it was, byte for byte."""
    chosen = resolve(recipe, [*TINY, *changes]).recipe
    parts = build(chosen, 0)
    program, hp = parts.program, parts.plan.scheduled(Clock(), 1)
    try:
        state = program.advance(program.start(0), Clock(), hp, np.inf).state
        saved = program.save(state)
        state = program.advance(state, Clock(updates=1), hp, np.inf).state
        whole = program.save(state)
        scored = parts.evaluate(parts.agent.policy(state), "periodic", 3)
        assert np.isfinite(scored.greedy.mean)
    finally:
        program.close()
    other = build(chosen, 0).program
    try:
        resumed, reasons = other.load(other.start(0), saved)
        again = other.save(other.advance(resumed, Clock(updates=1), hp, np.inf).state)
    finally:
        other.close()
    if not reasons:
        assert [name for name in whole if whole[name].tobytes() != again[name].tobytes()] == []
    return reasons
