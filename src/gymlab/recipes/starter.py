"""A recipe for people to start from: the resolved values, each with its help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml.nodes import MappingNode

from gymlab.core.errors import UserError
from gymlab.core.settings import Settings
from gymlab.recipes.lookup import file_name
from gymlab.recipes.resolve import resolve
from gymlab.recipes.schema import Recipe
from gymlab.recipes.yaml_source import compose
from gymlab.recipes.yaml_writer import commented, file_mapping, write_yaml


def write_starter(reference: str, *, imports: Sequence[str] = (), force: bool = False) -> tuple[Path, str]:
    """Write ./recipes/ENV.yaml; returns its path and the recipe's name."""
    recipe = resolve(reference, imports=imports).recipe
    path = Path("recipes") / file_name(recipe.env.id)
    if path.exists() and not force:
        raise UserError(f"{path} exists already: edit it, or overwrite it with --force")
    text = starter(recipe)
    path.parent.mkdir(exist_ok=True)
    fresh = path.with_suffix(".tmp")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)
    return path, recipe.name


def starter(recipe: Recipe) -> str:
    """A recipe file to edit: the resolved values, each with its help."""
    mapping = _without_nothing(file_mapping(recipe))
    ((label, variant),) = mapping["variants"].items()
    variant.pop("name", None)
    text = write_yaml(commented(mapping))
    helps: dict[tuple[str, ...], str] = {("variants", label): f"gymlab train {recipe.env.id}:{label}"}
    helps |= _helps(recipe.env, ("env",)) | _helps(recipe, ("variants", label))
    for key in variant:
        block = recipe.algorithm.settings if key == recipe.algorithm.name else getattr(recipe, key)
        if isinstance(block, Settings):
            helps |= _helps(block, ("variants", label, key))
    about = (type(recipe.algorithm.settings).__doc__ or "The algorithm.").strip().splitlines()[0]
    helps["variants", label, recipe.algorithm.name] = about
    return _annotated(text, helps)


def _helps(settings: Settings, prefix: tuple[str, ...]) -> dict[tuple[str, ...], str]:
    fields = type(settings).model_fields.items()
    return {(*prefix, key): field.description.splitlines()[0] for key, field in fields if field.description}


def _annotated(text: str, helps: dict[tuple[str, ...], str]) -> str:
    """Adds each key's help at the end of its line, all in one column."""
    lines = text.splitlines()
    places = {path: line for path, line in _key_lines(compose(text, "starter"), ()) if path in helps}
    column = max(min(len(lines[line]), 36) for line in places.values()) + 2
    for path, line in places.items():
        lines[line] = f"{lines[line].ljust(column - 2)}  # {helps[path]}"
    return "\n".join(lines) + "\n"


def _key_lines(tree: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    for key, value in tree.value if isinstance(tree, MappingNode) else ():
        yield (*path, key.value), key.start_mark.line
        yield from _key_lines(value, (*path, key.value))


def _without_nothing(value: Any) -> Any:
    """Leaves out what is not set: defaults of None, empty lists and blocks."""
    if not isinstance(value, dict):
        return value
    kept = {key: _without_nothing(item) for key, item in value.items()}
    return {key: item for key, item in kept.items() if item is not None and item not in ({}, [])}
