"""Every key a recipe can have: its help, kind and default; and what a run was given, by key."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import annotated_types
from pydantic.fields import FieldInfo

from gymlab.algorithms.settings import AlgorithmSettings, Positive
from gymlab.algorithms.settings import Share as ShareSchedule
from gymlab.core.errors import GymlabError
from gymlab.core.explanation import Explanation
from gymlab.core.schedules import Schedule
from gymlab.core.settings import Settings
from gymlab.envs.settings import EnvSettings, Part
from gymlab.metrics.catalogue import METRICS
from gymlab.recipes.foreign_keys import FOREIGN_KEYS
from gymlab.recipes.merge import BLOCKS, FIELDS, NOT_INHERITED
from gymlab.recipes.problems import Problems
from gymlab.recipes.schema import AlgorithmChoice, Recipe, Share, Steps
from gymlab.recipes.yaml_source import read_file
from gymlab.recipes.yaml_writer import variant_mapping

_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "text", Part: "a name or {name: args}"}


class Key(NamedTuple):
    path: str  # `ppo.learning_rate`
    kind: str
    default: str
    help: str


def keys() -> Iterator[Key]:
    """All keys of all blocks, those of each algorithm that ships included."""
    from gymlab.algorithms.registry import ALGORITHMS

    for field in FIELDS:
        if field not in BLOCKS:
            yield _key(field, Recipe.model_fields[field])
    blocks: dict[str, type[Settings]] = {**BLOCKS, **{name: kind.Settings for name, kind in ALGORITHMS.items()}}
    for block, model in blocks.items():
        yield Key(block, "a block", "", _line(model.__doc__))
        for name, info in model.model_fields.items():
            yield _key(f"{block}.{name}", info)


def settings_of(recipe: Recipe) -> dict[str, Any]:
    """Every value of a recipe by its full key, as plain data."""
    return _flat(variant_mapping(recipe))


def read_settings(path: Path) -> dict[str, Any]:
    """The same from a run's recipe.yaml, without importing what it names; {} where it cannot be read."""
    try:
        return settings_in(read_file(path, Problems()).plain())
    except (GymlabError, OSError, KeyError, TypeError, ValueError, AttributeError):
        return {}


def settings_in(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The same from the plain data of a file with one variant; KeyError, TypeError or ValueError where it is none."""
    (variant,) = tree["variants"].values()
    inner = {key: value for key, value in variant.items() if key not in NOT_INHERITED}
    return _flat({"env": tree["env"], **inner})


def default_settings(settings: Mapping[str, Any], *, of_algorithm: bool) -> dict[str, Any]:
    """The default of every key, `env.id` and what is derived from the env aside.

    An algorithm's own defaults are known only once it is imported, which takes a second.
    """
    blocks = [key.rpartition(".")[0] for key in settings if "." in key]
    name = next((block for block in blocks if block.partition(".")[0] not in BLOCKS), "ppo")
    kind: type[AlgorithmSettings] = AlgorithmSettings
    if of_algorithm:
        from gymlab.algorithms.registry import ALGORITHMS

        kind = ALGORITHMS[name].Settings if name in ALGORITHMS else AlgorithmSettings
    chosen = AlgorithmChoice(name=name, settings=kind())
    flat = settings_of(Recipe(name="", env=EnvSettings(id="none"), algorithm=chosen))
    flat["n_steps"] = kind.default_n_steps if of_algorithm else None
    derived = ("env.id", "env.solved_at", *(["n_steps"] if flat["n_steps"] is None else []))
    known = of_algorithm and kind is not AlgorithmSettings
    return {k: v for k, v in flat.items() if k not in derived and (known or not k.startswith(f"{name}."))}


def names() -> list[str]:
    """What can be asked for: full keys and their last names."""
    paths = [key.path for key in keys()]
    return list(dict.fromkeys([*paths, *(path.rpartition(".")[2] for path in paths)]))


def explain(name: str) -> list[Explanation]:
    """The settings of this name, in full or by its last part; names from elsewhere are understood."""
    ours = FOREIGN_KEYS.get(name, name).removeprefix(".")
    everything = list(keys())
    found = [key for key in everything if key.path == ours] or [key for key in everything if _leaf(key) == ours]
    alike: dict[tuple[str, str, str], list[Key]] = {}  # what several algorithms have is told once
    for key in found:
        alike.setdefault((_leaf(key), key.kind, key.help), []).append(key)
    below = [_leaf(key) for key in everything if key.path.rpartition(".")[0] == ours]
    return [_explanation(same, "" if ours == name else name, below) for same in alike.values()]


def _leaf(key: Key) -> str:
    return key.path.rpartition(".")[2]


def _explanation(same: list[Key], foreign: str, below: list[str]) -> Explanation:
    key = same[0]
    leaf = _leaf(same[0])
    defaults = [f"{other.path.partition('.')[0]} {other.default}" for other in same]
    facts = {
        "kind": key.kind,
        "keys": ", ".join(below),
        "default": key.default if len(same) == 1 else ", ".join(defaults),
        "elsewhere called": foreign,
        "logged as": f"hp/{leaf}" if key.kind.startswith("a number or a schedule") else "",
        "moves": ", ".join(_moved({leaf, *(other.path for other in same)})),
        "set it": f"gymlab train RECIPE {key.path if len(same) == 1 else leaf}=VALUE" if key.kind != "a block" else "",
    }
    name = key.path if len(same) == 1 else leaf
    return Explanation(name, "setting", key.help, {title: fact for title, fact in facts.items() if fact})


def _moved(names: set[str], most: int = 8) -> list[str]:
    """The metrics a setting moves, those it moves most first."""
    ranks = {m.name: [place for place, other in enumerate(m.settings) if other in names] for m in METRICS}
    return sorted((name for name, rank in ranks.items() if rank), key=lambda name: ranks[name][0])[:most]


def _key(path: str, info: FieldInfo) -> Key:
    default = "required" if info.is_required() else info.get_default(call_default_factory=True)
    return Key(path, _kind(info.annotation, info.metadata), _plain(default), _line(info.description))


def _plain(value: Any) -> str:
    if value in (None, (), {}):
        return "none"
    if isinstance(value, Schedule):
        return str(value.source)
    if isinstance(value, bool):
        return str(value).lower()
    return str(list(value)) if isinstance(value, tuple) else f"{value:g}" if isinstance(value, float) else str(value)


def _kind(annotation: Any, metadata: list[Any]) -> str:
    """A type in words, with its bounds."""
    origin = get_origin(annotation)
    args = get_args(annotation)
    if origin is Annotated:
        return _kind(args[0], [*args[1:], *metadata])
    if origin in (Union, types.UnionType):
        if {Steps, Share} <= set(args):
            return "steps and their clock, or a share of the budget"
        return " or ".join(_kind(arg, metadata) for arg in args if arg is not type(None))
    if origin is Literal:
        return "one of " + ", ".join(map(str, args))
    if annotation is Schedule:
        limit = " in [0, 1]" if get_args(ShareSchedule)[-1] in metadata else ""
        return "a number or a schedule" + (limit or " >= 0" * (get_args(Positive)[-1] in metadata))
    if annotation is Steps:
        return "steps and their clock, such as 1M env_steps"
    if origin in (tuple, list):
        return (
            f"a list of {_kind(args[0], []).removeprefix('a ').partition(' >')[0]}s"
            if args[0] is not Part
            else "a list"
        )
    return "a mapping" if origin is dict else _NAMES.get(annotation, "a value") + _limit(metadata)


def _limit(metadata: list[Any]) -> str:
    for limit in (inner for item in metadata for inner in getattr(item, "metadata", [item])):
        if isinstance(limit, annotated_types.Ge):
            return f" >= {limit.ge}"
        if isinstance(limit, annotated_types.Gt):
            return f" > {limit.gt}"
    return ""


def _flat(mapping: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in mapping.items():
        opens = isinstance(value, dict) and (not prefix or prefix + key == "env.kwargs")
        flat |= _flat(value, f"{prefix}{key}.") if opens else {f"{prefix}{key}": value}
    return flat


def _line(text: str | None) -> str:
    return " ".join((text or "").split())
