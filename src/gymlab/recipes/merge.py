"""How a variant inherits: mappings merge, lists and values are replaced, `key+` appends to an inherited list."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from gymlab.algorithms.settings import AlgorithmSettings
from gymlab.core.settings import Settings
from gymlab.recipes.problems import Place, Problems
from gymlab.recipes.schema import Recipe
from gymlab.recipes.yaml_source import Node, made

NOT_WRITTEN = ("name", "algorithm")  # fields of Recipe that a file expresses otherwise
FIELDS = tuple(field for field in Recipe.model_fields if field not in NOT_WRITTEN)
BLOCKS: dict[str, type[Settings]] = {
    name: field.annotation
    for name, field in Recipe.model_fields.items()
    if name not in NOT_WRITTEN and isinstance(field.annotation, type) and issubclass(field.annotation, Settings)
}
BLOCKS.pop("budget")  # a number of steps, written as one value
VARIANT_NAME = re.compile(r"[A-Za-z0-9_][\w.-]*")
NOT_INHERITED = ("extends", "name")

FindSettings = Callable[[str, Place], type[AlgorithmSettings] | None]


def algorithm_names() -> tuple[str, ...]:
    """The algorithms that ship."""
    from gymlab.algorithms.registry import ALGORITHMS

    return tuple(ALGORITHMS)


def is_algorithm_key(key: Any) -> bool:
    """Whether a key of a variant names an algorithm: one that ships, or a reference."""
    return isinstance(key, str) and (":" in key or (key not in FIELDS and key in algorithm_names()))


def merge_variant(parent: Node, child: Node, find_settings: FindSettings, problems: Problems) -> Node:
    """The child's keys over the parent's; another algorithm's block takes over only what its settings inherit."""
    merged = {key: node for key, node in parent.items() if key not in NOT_INHERITED}
    for key, node in child.items():
        if key == "extends":
            continue
        if isinstance(key, str) and key.endswith("+"):
            merged[key[:-1]] = _appended(merged.get(key[:-1]), node, key, problems)
        elif is_algorithm_key(key):
            _take_algorithm(merged, key, node, find_settings)
        elif key in BLOCKS:
            merged[key] = merge_block(merged.get(key), node, key, problems)
        else:
            merged[key] = node
    return Node(merged, child.place)


def merge_block(parent: Node | None, child: Node, name: str, problems: Problems) -> Node:
    """One block over another. An empty block (`policy:` and nothing more) changes nothing."""
    if child.value is None:
        return parent or Node({}, child.place)
    if parent is None:
        parent = Node({}, child.place)
    if not isinstance(child.value, dict) or not isinstance(parent.value, dict):
        return child
    merged = dict(parent.value)
    for key, node in child.value.items():
        if isinstance(key, str) and key.endswith("+"):
            inherited = merged.get(key[:-1]) or _default_list(name, key[:-1], node.place)
            merged[key[:-1]] = _appended(inherited, node, f"{name}.{key}", problems)
        elif name.startswith("env") and key in merged and (key == "kwargs" or "." in name):
            merged[key] = merge_block(merged[key], node, f"{name}.{key}", problems)
        else:
            merged[key] = node
    return Node(merged, child.place)


def _take_algorithm(merged: dict[Any, Node], key: str, node: Node, find_settings: FindSettings) -> None:
    inherited = next((name for name in merged if is_algorithm_key(name)), None)
    if inherited is None or inherited == key:
        merged[key] = _algorithm_block(merged.get(key), node)
        return
    former = merged.pop(inherited)
    mine = find_settings(key, node.place)
    theirs = find_settings(inherited, former.place)
    related = mine is not None and theirs is not None and issubclass(mine, theirs)
    merged[key] = _algorithm_block(former if related else None, node)


def _algorithm_block(parent: Node | None, child: Node) -> Node:
    if child.value is None:
        return parent if parent is not None else Node({}, child.place)
    if parent is None or not isinstance(parent.value, dict) or not isinstance(child.value, dict):
        return child
    return Node({**parent.value, **child.value}, child.place)


def _default_list(block: str, key: str, place: Place) -> Node | None:
    field = BLOCKS[block].model_fields.get(key) if block in BLOCKS else None
    return made(field.default, place) if field is not None and isinstance(field.default, tuple) else None


def _appended(inherited: Node | None, more: Node, key: str, problems: Problems) -> Node:
    before = [] if inherited is None or inherited.value is None else inherited.value
    if not isinstance(more.value, list) or not isinstance(before, list):
        problems.note(more.place, key, "appends to a list: write it as a list, [...]")
        return more
    return Node([*before, *more.value], more.place)
