"""A recipe as plain data and as YAML: every value, so that it loads back equal."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.representer import RoundTripRepresenter

from gymlab.recipes.merge import VARIANT_NAME, algorithm_names
from gymlab.recipes.schema import Recipe

MOST_WRITTEN = 256  # texts, of a few kilobytes each
_written: dict[str, str] = {}


def variant_mapping(recipe: Recipe) -> dict[str, Any]:
    """Plain data, as one flattened variant: the env inside, the algorithm's block under its name."""
    fields = recipe.model_dump()
    chosen = fields["algorithm"]
    mapping = {chosen["name"] if key == "algorithm" else key: value for key, value in fields.items()}
    mapping[chosen["name"]] = chosen["settings"]
    plain = {key: _plain(value) for key, value in mapping.items() if key != "name"}
    return {key: value if key == "features" else _whole(value) for key, value in plain.items()}


def file_mapping(recipe: Recipe) -> dict[str, Any]:
    """Plain data, in the shape of a recipe file with one variant."""
    variant = variant_mapping(recipe)
    env = variant.pop("env")
    label = recipe.name.rpartition(":")[2]
    if not VARIANT_NAME.fullmatch(label) or label in algorithm_names():
        label = label if label == recipe.algorithm.name else "run"
    if recipe.name != f"{env['id']}:{label}":
        variant = {"name": recipe.name, **variant}
    return {"env": env, "variants": {label: variant}}


def dump_recipe(recipe: Recipe) -> str:
    """Every value of a recipe, in the shape of a recipe file; `load.read_run_recipe` gives an equal recipe back."""
    return written(file_mapping(recipe))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _whole(value: Any) -> Any:
    """475.0 as 475 where the schema knows it for a number; arguments of foreign code stay as they are."""
    if isinstance(value, dict):
        return {key: item if key in ("kwargs", "wrappers") else _whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else value


def commented(value: Any) -> Any:
    """Plain data in ruamel's types, with lists of plain values on one line."""
    if isinstance(value, dict):
        tree = CommentedMap((key, commented(item)) for key, item in value.items())
        if not value:
            tree.fa.set_flow_style()
        return tree
    if isinstance(value, list):
        items = CommentedSeq(commented(item) for item in value)
        if not any(isinstance(item, dict) for item in value):
            items.fa.set_flow_style()
        return items
    return value


def written(mapping: Mapping[str, Any]) -> str:
    """Plain data as YAML. Members of a group are alike, and what was written last is written at once."""
    key = repr(mapping)
    text = _written.get(key)
    if text is None:
        if len(_written) >= MOST_WRITTEN:  # other threads may write too: nothing is looked up twice
            _written.clear()
        text = _written[key] = write_yaml(commented(mapping))
    return text


class _Representer(RoundTripRepresenter):
    """Writes nothing as `null`, not as an empty place."""


_Representer.add_representer(type(None), lambda self, _: self.represent_scalar("tag:yaml.org,2002:null", "null"))


def write_yaml(tree: Any) -> str:
    """YAML text, two spaces a level."""
    yaml = YAML()
    yaml.Representer = _Representer
    yaml.width = 10_000  # never folds a line
    yaml.indent(mapping=2, sequence=4, offset=2)
    buffer = io.StringIO()
    yaml.dump(tree, buffer)
    return buffer.getvalue()
