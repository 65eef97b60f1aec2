"""The keys of a recipe: help, type and default, other libraries' names, JSON Schema, and flat settings by key."""

from __future__ import annotations

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, cast, get_args, get_origin

import annotated_types
from pydantic.fields import FieldInfo

from gymlab.algorithms.settings import AlgorithmSettings, Positive
from gymlab.algorithms.settings import Share as ShareSchedule
from gymlab.core.errors import GymlabError
from gymlab.core.explanation import Explanation
from gymlab.core.schedules import Schedule
from gymlab.core.settings import Settings
from gymlab.core.types import Json, JsonObject
from gymlab.envs.settings import EnvSettings, Part
from gymlab.metrics.catalogue import METRICS
from gymlab.recipes.problems import Problems
from gymlab.recipes.schema import BLOCKS, FIELDS, NOT_INHERITED, AlgorithmChoice, Recipe, Share, Steps
from gymlab.recipes.write import RecipeMapping, variant_mapping
from gymlab.recipes.yaml_source import read_file

Schema = dict[str, Any]  # JSON Schema, or a part of one
_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "text", Part: "a name or {name: args}"}


class RecipeKey(NamedTuple):
    path: str  # `ppo.learning_rate`
    kind: str
    default: str
    help: str


def keys() -> Iterator[RecipeKey]:
    """All keys of all blocks, those of each algorithm that ships included."""
    from gymlab.algorithms.registry import ALGORITHMS

    for field in FIELDS:
        if field not in BLOCKS:
            yield _key(field, Recipe.model_fields[field])
    blocks: dict[str, type[Settings]] = {**BLOCKS, **{name: kind.Settings for name, kind in ALGORITHMS.items()}}
    for block, model in blocks.items():
        yield RecipeKey(block, "a block", "", _one_line(model.__doc__))
        for name, info in model.model_fields.items():
            yield _key(f"{block}.{name}", info)


def flat_settings(recipe: Recipe) -> dict[str, Json]:
    """Every value of a recipe by its full key, as plain data."""
    return _flat(variant_mapping(recipe))


def read_settings(path: Path) -> dict[str, Json]:
    """`flat_settings` of a run's recipe.yaml, without importing its references; {} if it cannot be read."""
    try:
        return flat_settings_in_file(cast("RecipeMapping", read_file(path, Problems()).to_data()))
    except (GymlabError, OSError, KeyError, TypeError, ValueError, AttributeError):
        return {}


def flat_settings_in_file(tree: RecipeMapping) -> dict[str, Json]:
    """`flat_settings` of a file with one variant, as plain data; KeyError, TypeError or ValueError if it is not one."""
    (variant,) = tree["variants"].values()
    inner = {key: value for key, value in variant.items() if key not in NOT_INHERITED}
    return _flat({"env": tree["env"], **inner})


def default_settings(settings: JsonObject, *, of_algorithm: bool) -> dict[str, Json]:
    """The default of every key, except `env.id` and what is derived from the env.

    An algorithm's own defaults are known only once it is imported, which takes a second.
    """
    blocks = [key.rpartition(".")[0] for key in settings if "." in key]
    name = next((block for block in blocks if block.partition(".")[0] not in BLOCKS), "ppo")
    kind: type[AlgorithmSettings] = AlgorithmSettings
    if of_algorithm:
        from gymlab.algorithms.registry import ALGORITHMS

        kind = ALGORITHMS[name].Settings if name in ALGORITHMS else AlgorithmSettings
    chosen = AlgorithmChoice(name=name, settings=kind())
    flat = flat_settings(Recipe(name="", env=EnvSettings(id="none"), algorithm=chosen))
    flat["n_steps"] = kind.default_n_steps if of_algorithm else None
    derived = ("env.id", "env.solved_at", *(["n_steps"] if flat["n_steps"] is None else []))
    known = of_algorithm and kind is not AlgorithmSettings
    return {k: v for k, v in flat.items() if k not in derived and (known or not k.startswith(f"{name}."))}


def names() -> list[str]:
    """Names that `explain` knows: full keys and their last parts."""
    paths = [key.path for key in keys()]
    return list(dict.fromkeys([*paths, *(path.rpartition(".")[2] for path in paths)]))


def explain(name: str) -> list[Explanation]:
    """The settings of this name: a full key, its last part, or another library's name for it."""
    ours = FOREIGN_KEYS.get(name, name).removeprefix(".")
    everything = list(keys())
    found = [key for key in everything if key.path == ours] or [key for key in everything if _leaf(key) == ours]
    alike: dict[tuple[str, str, str], list[RecipeKey]] = {}  # settings that several algorithms share are listed once
    for key in found:
        alike.setdefault((_leaf(key), key.kind, key.help), []).append(key)
    below = [_leaf(key) for key in everything if key.path.rpartition(".")[0] == ours]
    return [_explanation(same, "" if ours == name else name, below) for same in alike.values()]


def _leaf(key: RecipeKey) -> str:
    return key.path.rpartition(".")[2]


def _explanation(same: list[RecipeKey], foreign: str, below: list[str]) -> Explanation:
    key = same[0]
    leaf = _leaf(same[0])
    defaults = [f"{other.path.partition('.')[0]} {other.default}" for other in same]
    facts = {
        "kind": key.kind,
        "keys": ", ".join(below),
        "default": key.default if len(same) == 1 else ", ".join(defaults),
        "elsewhere called": foreign,
        "logged as": f"hp/{leaf}" if key.kind.startswith("a number or a schedule") else "",
        "moves": ", ".join(_affected_metrics({leaf, *(other.path for other in same)})),
        "set it": f"gymlab train RECIPE {key.path if len(same) == 1 else leaf}=VALUE" if key.kind != "a block" else "",
    }
    name = key.path if len(same) == 1 else leaf
    return Explanation(name, "setting", key.help, {title: fact for title, fact in facts.items() if fact})


def _affected_metrics(names: set[str], most: int = 8) -> list[str]:
    """The metrics that a setting affects, most affected first."""
    ranks = {m.name: [rank for rank, other in enumerate(m.settings) if other in names] for m in METRICS}
    return sorted((name for name, rank in ranks.items() if rank), key=lambda name: ranks[name][0])[:most]


def _key(path: str, info: FieldInfo) -> RecipeKey:
    default = "required" if info.is_required() else info.get_default(call_default_factory=True)
    return RecipeKey(path, _kind(info.annotation, info.metadata), _format_default(default), _one_line(info.description))


def _format_default(value: object) -> str:
    if value in (None, (), {}):
        return "none"
    if isinstance(value, Schedule):
        return str(value.source)
    if isinstance(value, bool):
        return str(value).lower()
    return str(list(value)) if isinstance(value, tuple) else f"{value:g}" if isinstance(value, float) else str(value)


def _kind(annotation: Any, metadata: list[object]) -> str:
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


def _limit(metadata: list[object]) -> str:
    for limit in (inner for item in metadata for inner in getattr(item, "metadata", [item])):
        if isinstance(limit, annotated_types.Ge):
            return f" >= {limit.ge}"
        if isinstance(limit, annotated_types.Gt):
            return f" > {limit.gt}"
    return ""


def _flat(mapping: JsonObject, prefix: str = "") -> dict[str, Json]:
    flat: dict[str, Json] = {}
    for key, value in mapping.items():
        if isinstance(value, dict) and (not prefix or prefix + key == "env.kwargs"):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


# Other libraries' names of our keys. An entry that begins with a dot is in the algorithm's block.
FOREIGN_KEYS = {
    "hidden_dims": "policy.hidden",
    "hidden_sizes": "policy.hidden",
    "net_arch": "policy.hidden",
    "policy_kwargs": "policy",
    "activation_fn": "policy.activation",
    "use_sde": "policy.exploration",
    "sde_sample_freq": "policy.gsde_every",
    "n_timesteps": "budget",
    "total_timesteps": "budget",
    "max_env_steps": "budget",
    "max_timesteps": "budget",
    "num_envs": "n_envs",
    "num_steps": "n_steps",
    "ent_coef": ".entropy_coef",
    "vf_coef": ".value_coef",
    "n_epochs": ".epochs",
    "update_epochs": ".epochs",
    "lr": ".learning_rate",
    "clip_coef": ".clip_range",
    "clip_range_vf": ".value_clip",
    "minibatch_size": ".batch_size",
    "normalize_advantages": ".normalize_advantage",
    "reward_threshold": "env.solved_at",
    "env_id": "env.id",
    "env_kwargs": "env.kwargs",
    "env_wrapper": "env.wrappers",
    "frame_stack": "env.wrappers",
    "eval_freq": "eval.every",
    "n_eval_episodes": "eval.episodes",
    "save_freq": "checkpoints.every",
}

KEY_HINTS = {
    "algorithm": "the block's name is the algorithm, as in `ppo: {}`",
    "algo": "the block's name is the algorithm, as in `ppo: {}`",
    "algo_id": "the block's name is the algorithm, as in `ppo: {}`",
    "seed": "a recipe holds no seed of the run: give --seed on the command line, or eval.seed",
}


def foreign_key_hint(key: str, algorithm: str | None) -> str | None:
    """Our name for another library's key, or None."""
    if key in KEY_HINTS:
        return KEY_HINTS[key]
    ours = FOREIGN_KEYS.get(key)
    if ours is None:
        return None
    return f"here it is called '{(algorithm or 'ppo') + ours if ours.startswith('.') else ours}'"


_PART_SCHEMA = {
    "description": "a name, or {name: arguments}",
    "anyOf": [{"type": "string"}, {"type": "object", "minProperties": 1, "maxProperties": 1}],
}


def recipe_file_schema() -> Schema:
    """The JSON Schema of a recipe file: an env block and named variants."""
    from gymlab.algorithms.registry import ALGORITHMS

    recipe = Recipe.model_json_schema()
    definitions: Schema = {**recipe["$defs"], "Part": _PART_SCHEMA}
    for name in ("AlgorithmChoice", "AlgorithmSettings"):
        definitions.pop(name, None)
    for algorithm in ALGORITHMS.values():
        own = algorithm.Settings.model_json_schema()
        definitions |= own.pop("$defs", {})
        definitions[algorithm.Settings.__name__] = own
    for model in BLOCKS.values():
        _make_optional(definitions[model.__name__])
    blocks = {name: {"$ref": f"#/$defs/{algorithm.Settings.__name__}"} for name, algorithm in ALGORITHMS.items()}
    definitions["Variant"] = _variant_schema({key: recipe["properties"][key] for key in FIELDS}, blocks)
    schema: Schema = _without_object_defaults(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "gymlab recipe",
            "type": "object",
            "additionalProperties": False,
            "required": ["env"],
            "properties": {
                "env": {"$ref": "#/$defs/EnvSettings"},
                "variants": {"type": "object", "additionalProperties": {"$ref": "#/$defs/Variant"}},
            },
            "$defs": definitions,
        }
    )
    return schema


def _variant_schema(fields: Schema, blocks: Schema) -> Schema:
    extends = {"type": "string", "description": "The variant whose settings this one inherits."}
    variant = {
        "type": ["object", "null"],
        "additionalProperties": False,
        "properties": {"extends": extends, **fields, **blocks},
        "patternProperties": {r"^.+:[A-Za-z_]\w*$": {"type": ["object", "null"]}},
    }
    return _make_optional(variant)


def _make_optional(block: Schema) -> Schema:
    """Nothing in a block is required, since it may be inherited; `key+` appends to a list."""
    block.pop("required", None)
    lists = [key for key, field in block["properties"].items() if _is_list(field)]
    if lists:
        block.setdefault("patternProperties", {})[rf"^({'|'.join(lists)})\+$"] = {"type": "array"}
    return block


def _is_list(field: Schema) -> bool:
    return field.get("type") == "array" or any(_is_list(choice) for choice in field.get("anyOf", ()))


def _without_object_defaults(value: Any) -> Any:
    """Drop defaults that are objects of our own types: their internal form is not what a file contains."""
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if not (k == "default" and isinstance(v, dict))}
        return {key: _without_object_defaults(item) for key, item in kept.items()}
    return [_without_object_defaults(item) for item in value] if isinstance(value, list) else value
