"""Env registry: ids, old names, extras and known facts, and registrations as JSON for other processes."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import json
import re
import warnings
from typing import Any, NamedTuple

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator, registry

from gymlab.core.errors import UserError, nearest, suggestion
from gymlab.envs.references import import_module, is_reference, reference_module
from gymlab.envs.settings import EnvKwargs

KNOWN_OPTIMA = {
    "Taxi-v4": 7.93,
    "FrozenLake-v1": 0.744,
    "FrozenLake8x8-v1": 0.913,
    "MountainCar-v0": -97.6,
    "CartPole-v1": 500.0,
    "CliffWalking-v1": -13.0,
}
"""The best mean return any policy can reach: an upper bound of `solved_at`."""

FRESH_PER_EPISODE = frozenset({"BipedalWalker-v3", "BipedalWalkerHardcore-v3"})
"""Envs whose physics world outlives a reset: made anew for each episode, so that it depends on its seed alone."""

_RENAMED = {
    "Acrobot-v0": "Acrobot-v1",
    "BipedalWalker-v2": "BipedalWalker-v3",
    "BipedalWalkerHardcore-v2": "BipedalWalkerHardcore-v3",
    "Blackjack-v0": "Blackjack-v1",
    "CarRacing-v2": "CarRacing-v3",
    "CliffWalking-v0": "CliffWalking-v1",
    "FrozenLake-v0": "FrozenLake-v1",
    "FrozenLake8x8-v0": "FrozenLake8x8-v1",
    "LunarLander-v2": "LunarLander-v3",
    "LunarLanderContinuous-v2": "LunarLanderContinuous-v3",
    "Pendulum-v0": "Pendulum-v1",
    "Taxi-v3": "Taxi-v4",
}
_OLD_MUJOCO = re.compile(
    r"(Ant|HalfCheetah|Hopper|Humanoid|HumanoidStandup|InvertedDoublePendulum|InvertedPendulum|Pusher|Reacher|Swimmer"
    r"|Walker2d)-v[23]"
)
_OLD_ATARI = re.compile(r"(?P<game>[A-Za-z]\w*?)(?P<kind>NoFrameskip|Deterministic)-v(?P<version>[04])")
# Shims, experiments that need flax, and a thousand levels of Doom, most of which no package ships.
_NOT_OFFERED = re.compile(r"GymV\d+Environment-v0|(phys2d|tabular)/.+|Vizdoom\w+-S[1-5]-v0")
_RETRO = re.compile(r"Retro/[\w-]+-v\d+")
_EXTRAS = {  # module prefix: the extra, and the modules it installs
    "gymlab.envs.games.minatar": ("minatar", ("minatar",)),
    "gymnasium.envs.box2d": ("box2d", ("Box2D",)),
    "gymnasium.envs.mujoco": ("mujoco", ("mujoco", "imageio")),
}


_KNOWN_PACKAGES = ("gymnasium.", "gymlab.", "ale_py.")  # their envs are registered wherever gymlab is imported


class ResolvedEnv(NamedTuple):
    """An existing env and the id it is made by."""

    id: str  # a registered id, or the reference as it was written
    kwargs: EnvKwargs  # that the old id stood for; the user's own override them
    note: str  # for the user; "" for none


def resolve_id(text: str) -> ResolvedEnv:
    """The env with this id, old id or reference; UserError for an unknown one or a missing package."""
    _register_games()
    if is_reference(text) or ":" in text:
        _check_reference(text)
        return ResolvedEnv(text, {}, "")
    alias = _alias(text)
    resolved = alias or ResolvedEnv(text, {}, "")
    if resolved.id.startswith("ALE/"):
        _register_atari(text, resolved.id)
    elif resolved.id.startswith("Vizdoom"):
        _register_doom(resolved.id)
    elif resolved.id.startswith("Retro/"):
        _register_retro(resolved.id)
    spec = registry.get(resolved.id)
    if spec is None:
        raise UserError(f"unknown environment '{text}': {_did_you_mean(text)}")
    missing = missing_extra(spec)
    if missing is not None:
        raise UserError(f"{resolved.id} needs an extra package: pip install 'gymlab[{missing}]'")
    return resolved


def known_ids() -> list[str]:
    """Every registered id that can be made here or after installing an extra."""
    _register_games()
    if importlib.util.find_spec("ale_py") is not None:
        import_module("ale_py", "Atari")
    if importlib.util.find_spec("vizdoom") is not None:
        _register_doom("ViZDoom")
    if importlib.util.find_spec("stable_retro") is not None:
        _register_retro("")
    return sorted(name for name in registry if not _OLD_MUJOCO.fullmatch(name) and not _NOT_OFFERED.fullmatch(name))


def find_spec(text: str) -> EnvSpec | None:
    """The registration behind an id or `module:Id-v0`; None for classes."""
    resolve_id(text)
    return registry.get(text.rpartition(":")[2])


def spec_threshold(text: str) -> float | None:
    """The registered return that counts as solved."""
    spec = find_spec(text)
    return None if spec is None else spec.reward_threshold


def env_family(text: str) -> str:
    """The family of an id: classic_control, toy_text, box2d, atari, ...; `own` for the user's envs."""
    _register_games()
    if text.startswith("ALE/"):
        return "atari"
    spec = registry.get(text)
    entry = ["own"] if spec is None or ":" in text else _entry_module(spec).split(".")
    below = 2 if entry[:2] == ["gymnasium", "envs"] else 3 if entry[:3] == ["gymlab", "envs", "games"] else 0
    return entry[below] if len(entry) > below else entry[-1]


def missing_extra(spec: EnvSpec) -> str | None:
    """The extra that must be installed before this env can be made."""
    entry = spec.entry_point if isinstance(spec.entry_point, str) else ""
    for prefix, (extra, modules) in _EXTRAS.items():
        if entry.startswith(prefix) and any(importlib.util.find_spec(module) is None for module in modules):
            return extra
    return None


def registration_json(text: str) -> str | None:
    """An env's registration as JSON for `register_from_json`; None for a reference, which needs none.

    UserError where it cannot be serialised, as of a class in a script.
    """
    spec = registry.get(resolve_id(text).id)
    if spec is None:
        return None
    entry = spec.entry_point
    if callable(entry):
        module = entry.__module__
        name = getattr(entry, "__qualname__", "<")
        if module == "__main__" or "<" in name:
            raise UserError(f"{text} is registered by a script that other processes cannot import: move it to a module")
        entry = f"{module}:{name}"
    try:
        return dataclasses.replace(spec, entry_point=entry, vector_entry_point=None).to_json()
    except (TypeError, ValueError) as error:
        raise UserError(f"the registration of {text} cannot be sent to another process: {error}") from error


def foreign_registration_json(text: str) -> str | None:
    """As `registration_json`, of envs that other processes do not register by themselves; None for all others."""
    try:
        serialized = registration_json(text)
    except UserError:
        return None
    known = serialized is None or str(json.loads(serialized)["entry_point"]).startswith(_KNOWN_PACKAGES)
    return None if known else serialized


def register_from_json(serialized: str | None) -> None:
    """Register an env from `registration_json`, unless its id is registered already."""
    if serialized is not None:
        spec = EnvSpec.from_json(serialized)
        registry.setdefault(spec.id, spec)


def register_from_manifest(serialized: str) -> None:
    """The same from a run's manifest, which is untrusted: nothing but a gymnasium.Env class is accepted."""
    try:
        spec = EnvSpec.from_json(serialized)
        if spec.id in registry:
            return
        entry = str(spec.entry_point)
        found = load_env_creator(entry)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise UserError(f"the env's registration in the run's manifest cannot be used: {error}") from error
    except ImportError as error:
        raise UserError(f"{spec.id} is {entry}, which cannot be imported from here ({error})") from error
    if not (isinstance(found, type) and issubclass(found, gymnasium.Env)):
        raise UserError(f"{spec.id} is {entry} by the run's manifest, which is not a gymnasium.Env class")
    registry.setdefault(spec.id, spec)  # importing its module may have registered it


def _alias(text: str) -> ResolvedEnv | None:
    if text in _RENAMED:
        new = _RENAMED[text]
        return ResolvedEnv(new, {}, f"{text} is now called {new}")
    if _OLD_MUJOCO.fullmatch(text):
        new = f"{text.rpartition('-')[0]}-v5"
        return ResolvedEnv(new, {}, f"{text} was removed from Gymnasium: using {new}, whose returns differ somewhat")
    old = _OLD_ATARI.fullmatch(text)
    if old is None:
        return None
    skip = 1 if old["kind"] == "NoFrameskip" else 3 if old["game"] == "SpaceInvaders" else 4
    kwargs = {"frameskip": skip, "repeat_action_probability": 0.0 if old["version"] == "4" else 0.25}
    written = ", ".join(f"{key}={value}" for key, value in kwargs.items())
    return ResolvedEnv(f"ALE/{old['game']}-v5", kwargs, f"{text} is now ALE/{old['game']}-v5 with {written}")


def _check_reference(text: str) -> None:
    where, _, name = text.rpartition(":")
    if not name:
        raise UserError(
            f"environment '{text}' names nothing after the ':': write module:Id-v0, module:Class or file.py:Class"
        )
    module = reference_module(text)
    if name in registry or callable(getattr(module, name, None)):
        return
    own = [spec.id for spec in registry.values() if _entry_module(spec) == module.__name__]
    own += [key for key, value in vars(module).items() if inspect.isclass(value) and issubclass(value, gymnasium.Env)]
    hint = suggestion(name, own) if own else "it registers no environment and holds no gymnasium.Env class"
    raise UserError(f"unknown environment '{text}': '{where}' has no '{name}': {hint}")


def _entry_module(spec: EnvSpec) -> str:
    if isinstance(spec.entry_point, str):
        return spec.entry_point.partition(":")[0]
    return str(getattr(spec.entry_point, "__module__", ""))


def _did_you_mean(text: str) -> str:
    ids = known_ids()
    name = text.rpartition("-v")[0] or text
    # The same name in another version comes first, and its newest version before older ones.
    same = [other for other in ids if other.rpartition("-v")[0].lower() == name.lower()]
    if same:
        return f"did you mean '{max(same, key=lambda other: int(other.rpartition('-v')[2] or 0))}'?"
    close = nearest(text, [*ids, *_RENAMED])
    return f"did you mean '{_RENAMED.get(close, close)}'?" if close else "list them with: gymlab envs list"


def _register_atari(text: str, new: str) -> None:
    if importlib.util.find_spec("ale_py") is None:
        raise UserError(
            f"{new if new == text else f'{text} ({new})'} needs an extra package: pip install 'gymlab[atari]'"
        )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*Overriding environment")  # env processes register theirs first
        ale: Any = import_module("ale_py", f"'{text}'")
    ale.ALEInterface.setLoggerMode(ale.LoggerMode.Error)  # no banner for every env


def _register_doom(name: str) -> None:
    if importlib.util.find_spec("vizdoom") is None:
        raise UserError(f"{name} needs an extra package: pip install 'gymlab[vizdoom]'")
    import_module("gymlab.envs.games.doom", "ViZDoom's scenarios").register()


def _register_retro(name: str) -> None:
    """Register the game the package ships and the requested one: the ROMs of most others are missing."""
    if importlib.util.find_spec("stable_retro") is None:
        raise UserError(f"{name} needs an extra package: pip install 'gymlab[retro]'")
    games = import_module("gymlab.envs.games.retro", "stable-retro's games")
    games.register()
    if _RETRO.fullmatch(name) and games.known(name):
        games.register(name)


def _register_games() -> None:
    import_module("gymlab.envs.games", "gymlab's own games")
