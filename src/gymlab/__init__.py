"""gymlab: train, prove, resume and share reinforcement-learning agents for Gymnasium environments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gymlab.core import __version__

__all__ = ["A2C", "PPO", "REINFORCE", "__version__", "evaluate_policy", "load", "make_vec_env"]

if TYPE_CHECKING:
    from gymlab.sb3 import A2C, PPO, REINFORCE, evaluate_policy, load, make_vec_env


def __getattr__(name: str) -> object:
    """The Python API is loaded when it is first asked for: the command line starts without it."""
    if name in __all__:
        from gymlab import sb3

        return getattr(sb3, name)
    raise AttributeError(f"module 'gymlab' has no attribute {name!r}")
