"""Physics parameters of an env object that can be changed between episodes."""

from __future__ import annotations

from typing import Any

from gymlab.core.errors import UserError, suggestion

_NOT_PHYSICS = frozenset({"render_fps", "screen_dim", "screen_width", "screen_height", "metadata"})


def numeric_parameters(env: Any) -> dict[str, float]:
    """The public numbers an env object (unwrapped) holds."""
    return {
        name: float(value)
        for name, value in vars(env).items()
        if not name.startswith("_") and name not in _NOT_PHYSICS and type(value) in (int, float)
    }


def check_parameters(env: Any, names: list[str]) -> None:
    """UserError where an env has no such number."""
    known = numeric_parameters(env)
    for name in names:
        if name not in known:
            has = suggestion(name, known) if known else "it has none"
            raise UserError(f"{type(env).__name__} has no numeric parameter '{name}': {has}")


def set_parameters(env: Any, values: dict[str, float]) -> None:
    """Set parameters and what the env derived from them when it was made. They apply from the next reset on."""
    for name, value in values.items():
        setattr(env, name, value)
    if hasattr(env, "polemass_length"):  # CartPole
        env.total_mass = env.masspole + env.masscart
        env.polemass_length = env.masspole * env.length
    if "wind_power" in values or "turbulence_power" in values:  # LunarLander
        env.enable_wind = True
