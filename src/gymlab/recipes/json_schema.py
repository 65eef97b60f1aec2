"""The JSON Schema of a recipe file, for editors."""

from __future__ import annotations

from typing import Any

from gymlab.recipes.merge import BLOCKS, FIELDS
from gymlab.recipes.schema import Recipe

_PART = {
    "description": "a name, or {name: arguments}",
    "anyOf": [{"type": "string"}, {"type": "object", "minProperties": 1, "maxProperties": 1}],
}


def recipe_file_schema() -> dict[str, Any]:
    """What may stand in a recipe file: an env block and named variants."""
    from gymlab.algorithms.registry import ALGORITHMS

    recipe = Recipe.model_json_schema()
    definitions: dict[str, Any] = {**recipe["$defs"], "Part": _PART}
    for name in ("AlgorithmChoice", "AlgorithmSettings"):
        definitions.pop(name, None)
    for algorithm in ALGORITHMS.values():
        own = algorithm.Settings.model_json_schema()
        definitions |= own.pop("$defs", {})
        definitions[algorithm.Settings.__name__] = own
    for model in BLOCKS.values():
        _open(definitions[model.__name__])
    blocks = {name: {"$ref": f"#/$defs/{algorithm.Settings.__name__}"} for name, algorithm in ALGORITHMS.items()}
    definitions["Variant"] = _variant({key: recipe["properties"][key] for key in FIELDS}, blocks)
    schema: dict[str, Any] = _without_object_defaults(
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


def _variant(fields: dict[str, Any], blocks: dict[str, Any]) -> dict[str, Any]:
    extends = {"type": "string", "description": "The variant whose settings this one inherits."}
    variant = {
        "type": ["object", "null"],
        "additionalProperties": False,
        "properties": {"extends": extends, **fields, **blocks},
        "patternProperties": {r"^.+:[A-Za-z_]\w*$": {"type": ["object", "null"]}},
    }
    return _open(variant)


def _open(block: dict[str, Any]) -> dict[str, Any]:
    """Nothing in a block is required, since it may be inherited; `key+` appends to a list."""
    block.pop("required", None)
    lists = [key for key, field in block["properties"].items() if _is_list(field)]
    if lists:
        block.setdefault("patternProperties", {})[rf"^({'|'.join(lists)})\+$"] = {"type": "array"}
    return block


def _is_list(field: dict[str, Any]) -> bool:
    return field.get("type") == "array" or any(_is_list(choice) for choice in field.get("anyOf", ()))


def _without_object_defaults(value: Any) -> Any:
    """Defaults of our own types would be shown in their inner form."""
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if not (k == "default" and isinstance(v, dict))}
        return {key: _without_object_defaults(item) for key, item in kept.items()}
    return [_without_object_defaults(item) for item in value] if isinstance(value, list) else value
