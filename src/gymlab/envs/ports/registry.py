"""Which envs are ported, with which keyword arguments. Importing this imports neither JAX nor Gymnasium."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from gymlab.envs.settings import EnvKwargs

if TYPE_CHECKING:
    from gymlab.envs.ports.port import JaxEnv

DEFAULT_EPISODE_STEPS = 1000  # for envs registered without a time limit
_NUMBER = (int, float)
_TABLE = "tabular:from_gymnasium"
_CLASSIC = "gymnasium.envs.classic_control"
_TOY = "gymnasium.envs.toy_text"


class Port(NamedTuple):
    """A ported env: the Gymnasium env it mirrors, its builder, and its kwargs with their types."""

    entry_point: str  # an id registered with another one has no port
    builder: str
    kwargs: dict[str, type | tuple[type, ...]]


_CARTPOLE = Port(f"{_CLASSIC}.cartpole:CartPoleEnv", "cartpole:CartPole", {"sutton_barto_reward": bool})
_LAKE = Port(
    f"{_TOY}.frozen_lake:FrozenLakeEnv",
    _TABLE,
    {"desc": object, "map_name": object, "is_slippery": bool, "success_rate": _NUMBER, "reward_schedule": object},
)
_CLIFF = Port(f"{_TOY}.cliffwalking:CliffWalkingEnv", _TABLE, {"is_slippery": bool})
_TAXI_KWARGS: dict[str, type | tuple[type, ...]] = {
    "is_rainy": bool,
    "rainy_probability": _NUMBER,
    "fickle_passenger": bool,
    "fickle_probability": _NUMBER,
}

PORTS: dict[str, Port] = {
    "CartPole-v0": _CARTPOLE,
    "CartPole-v1": _CARTPOLE,
    "Acrobot-v1": Port(f"{_CLASSIC}.acrobot:AcrobotEnv", "acrobot:Acrobot", {}),
    "MountainCar-v0": Port(
        f"{_CLASSIC}.mountain_car:MountainCarEnv", "mountain_car:MountainCar", {"goal_velocity": _NUMBER}
    ),
    "MountainCarContinuous-v0": Port(
        f"{_CLASSIC}.continuous_mountain_car:Continuous_MountainCarEnv",
        "mountain_car_continuous:MountainCarContinuous",
        {"goal_velocity": _NUMBER},
    ),
    "Pendulum-v1": Port(f"{_CLASSIC}.pendulum:PendulumEnv", "pendulum:Pendulum", {"g": _NUMBER}),
    "FrozenLake-v1": _LAKE,
    "FrozenLake8x8-v1": _LAKE,
    "CliffWalking-v1": _CLIFF,
    "CliffWalkingSlippery-v1": _CLIFF,
    "Taxi-v4": Port(f"{_TOY}.taxi:TaxiEnv", _TABLE, _TAXI_KWARGS),
    "Bandit-v0": Port(
        "gymlab.envs.games.bandit:BanditEnv",
        "bandit:Bandit",
        {"n_arms": int, "seed": int, "noise": _NUMBER, "drift": _NUMBER},
    ),
}


def find_port(env_id: str, kwargs: EnvKwargs, max_episode_steps: int | None) -> JaxEnv | str:
    """The compiled env that `gymnasium.make(env_id, **kwargs)` would give, or why there is none.

    The time limit is `max_episode_steps`, else the registered one, else 1000.
    """
    found = _match(env_id, kwargs)
    if isinstance(found, str):
        return found
    port, kwargs, registered = found
    return _build(port, env_id, kwargs, max_episode_steps or registered or DEFAULT_EPISODE_STEPS)


def _match(env_id: str, kwargs: EnvKwargs) -> tuple[Port, EnvKwargs, int | None] | str:
    """A port, all kwargs for it and the registered time limit; or why there is none."""
    if env_id not in PORTS:
        return f"{env_id} has no compiled port"
    import gymnasium

    import_module("gymlab.envs.games")
    port = PORTS[env_id]
    spec = gymnasium.spec(env_id)
    if spec.entry_point != port.entry_point or spec.additional_wrappers:
        return f"{env_id} is registered as something else than {port.entry_point}"
    kwargs = {**spec.kwargs, **kwargs}
    for name, value in kwargs.items():
        if name not in port.kwargs:
            return f"the compiled port of {env_id} has no kwarg '{name}'"
        if not _fits(value, port.kwargs[name]):
            return f"the compiled port of {env_id} takes no {name}={value!r}"
    return port, kwargs, spec.max_episode_steps


def _fits(value: object, kind: type | tuple[type, ...]) -> bool:
    if isinstance(value, bool):
        return kind in (bool, object)
    return isinstance(value, kind)


def _build(port: Port, env_id: str, kwargs: EnvKwargs, limit: int) -> JaxEnv | str:
    build = _load(port.builder)
    if port.builder == _TABLE:
        return build(env_id, kwargs, limit)
    return build(max_episode_steps=limit, **kwargs)


def _load(reference: str) -> Callable[..., Any]:
    module, name = reference.split(":")
    found: Callable[..., Any] = getattr(import_module(f"gymlab.envs.ports.{module}"), name)
    return found
