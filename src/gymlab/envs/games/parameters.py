"""Physics parameters of an env object that can be changed between episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from gymlab.core.errors import UserError, suggestion
from gymlab.envs.gymnasium_types import Env

if TYPE_CHECKING:
    from gymnasium.envs.box2d.lunar_lander import LunarLander
    from gymnasium.envs.classic_control.cartpole import CartPoleEnv

_NOT_PHYSICS = frozenset({"render_fps", "screen_dim", "screen_width", "screen_height", "metadata"})


def numeric_parameters(env: Env) -> dict[str, float]:
    """The public numbers an env object (unwrapped) holds."""
    return {
        name: float(value)
        for name, value in vars(env).items()
        if not name.startswith("_") and name not in _NOT_PHYSICS and type(value) in (int, float)
    }


def check_parameters(env: Env, names: list[str]) -> None:
    """UserError where an env has no such number."""
    known = numeric_parameters(env)
    for name in names:
        if name not in known:
            has = suggestion(name, known) if known else "it has none"
            raise UserError(f"{type(env).__name__} has no numeric parameter '{name}': {has}")


def set_parameters(env: Env, values: dict[str, float]) -> None:
    """Set parameters and what the env derived from them when it was made. They apply from the next reset on."""
    for name, value in values.items():
        setattr(env, name, value)
    if hasattr(env, "polemass_length"):  # CartPole
        cartpole = cast("CartPoleEnv", env)
        cartpole.total_mass = cartpole.masspole + cartpole.masscart
        cartpole.polemass_length = cartpole.masspole * cartpole.length
    if "wind_power" in values or "turbulence_power" in values:  # LunarLander
        cast("LunarLander", env).enable_wind = True
