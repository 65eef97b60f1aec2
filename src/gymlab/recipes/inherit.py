"""Inheritance of variants: the outline of a recipe file, `extends`, and merging a variant over its parent.

Mappings merge, lists and values are replaced, `key+` appends to an inherited list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gymlab.algorithms.settings import AlgorithmSettings
from gymlab.core.errors import suggestion
from gymlab.recipes.file_references import AlgorithmLookup
from gymlab.recipes.keys import foreign_key_hint
from gymlab.recipes.problems import Location, Problems, format_value
from gymlab.recipes.schema import BLOCKS, FIELDS, NOT_INHERITED, VARIANT_NAME, algorithm_names, is_algorithm_key
from gymlab.recipes.yaml_source import Node, read_file, read_text, to_node

TOP_KEYS = ("env", "variants")


@dataclass(frozen=True)
class RecipeFile:
    """A parsed file: its env block and its variants."""

    path: Path | None
    root: Node
    env: Node
    variants: dict[str, Node]


class FlatVariant(NamedTuple):
    """A variant merged with everything it inherits."""

    node: Node
    from_defaults: bool  # its oldest ancestor is an algorithm's name, not a recipe


def read_recipe_file(path: Path, problems: Problems) -> RecipeFile:
    """Read a file and check its outermost keys."""
    return parse_outline(read_file(path, problems), path, problems)


def parse_recipe_text(text: str, file: str, problems: Problems) -> RecipeFile:
    """`read_recipe_file` for text."""
    return parse_outline(read_text(text, file, problems), None, problems)


def parse_outline(root: Node, path: Path | None, problems: Problems) -> RecipeFile:
    """Check the outermost keys; their contents are checked variant by variant."""
    if not isinstance(root.value, dict):
        problems.note(root.location, "", f"a recipe is an env block and variants, got {format_value(root.to_data())}")
        return RecipeFile(path, root, Node({}, root.location), {})
    for key, node in root.items():
        if key not in TOP_KEYS:
            problems.note(node.location, str(key), f"unknown key: {_hint_for_outermost_key(str(key))}")
    env = root.get("env") or Node({}, root.location)
    if not isinstance(env.value, dict):
        problems.note(env.location, "env", f"expected a block of keys, got {format_value(env.to_data())}")
        env = Node({}, env.location)
    return RecipeFile(path, root, env, _variants(root.get("variants"), problems))


def _hint_for_outermost_key(key: str) -> str:
    if key in FIELDS or is_algorithm_key(key) or foreign_key_hint(key, None):
        return "it belongs inside a variant, below `variants:`"
    return suggestion(key, TOP_KEYS)


def _variants(node: Node | None, problems: Problems) -> dict[str, Node]:
    if node is None or node.value is None:
        return {}
    if not isinstance(node.value, dict):
        problems.note(node.location, "variants", f"expected named variants, got {format_value(node.to_data())}")
        return {}
    variants = {}
    for name, variant in node.items():
        if not isinstance(name, str) or not VARIANT_NAME.fullmatch(name):
            problems.note(
                variant.location,
                "variants",
                f"a variant's name is letters, digits, _ - and ., got {format_value(name)}",
            )
        elif variant.value is not None and not isinstance(variant.value, dict):
            problems.note(
                variant.location, f"variants.{name}", f"expected a block of keys, got {format_value(variant.to_data())}"
            )
        else:
            variants[name] = variant if variant.value is not None else Node({}, variant.location)
    return variants


def default_variant(algorithm: str, env: Node) -> FlatVariant:
    """An algorithm's name as a variant of any env."""
    return FlatVariant(Node({"env": env, algorithm: Node({}, env.location)}, env.location), from_defaults=True)


class Flattener:
    """Merges a variant with its ancestors; a parent is searched in the same file, then in the lower-priority files."""

    def __init__(self, files: Sequence[RecipeFile], problems: Problems) -> None:
        self.files = files
        self.problems = problems
        self.find_settings = AlgorithmLookup(problems).settings

    def flatten(self, index: int, name: str, visited: tuple[tuple[int, str], ...] = ()) -> FlatVariant:
        file = self.files[index]
        own = file.variants[name]
        base = self._parent(index, name, own, (*visited, (index, name)))
        merged = self._merge(base.node, _with_algorithm(name, own, self.problems))
        if not any(is_algorithm_key(key) for key in merged.value):
            self._note_no_algorithm(name, merged)
        return FlatVariant(merged, base.from_defaults)

    def _parent(self, index: int, name: str, own: Node, visited: tuple[tuple[int, str], ...]) -> FlatVariant:
        file = self.files[index]
        base = FlatVariant(Node({"env": file.env}, file.env.location), from_defaults=False)
        extends = own.get("extends")
        if extends is None:
            return base
        parent = extends.value
        if not isinstance(parent, str):
            self.problems.note(
                extends.location, "extends", f"expected the name of a variant, got {format_value(extends.to_data())}"
            )
            return base
        if parent in file.variants and parent != name:
            if (index, parent) in visited:
                chain = " -> ".join([*(step for _, step in visited), parent])
                self.problems.note(extends.location, "extends", f"a cycle of inheritance: {chain}")
                return base
            return self.flatten(index, parent, visited)
        for lower in range(index + 1, len(self.files)):
            if parent in self.files[lower].variants:
                inherited = self.flatten(lower, parent, visited)
                return FlatVariant(self._merge(inherited.node, base.node), inherited.from_defaults)
        if parent == name:
            self.problems.note(extends.location, "extends", f"a cycle of inheritance: {name} -> {name}")
            return base
        if parent in algorithm_names():
            return default_variant(parent, file.env)
        known = [*file.variants, *(v for lower in self.files[index + 1 :] for v in lower.variants), *algorithm_names()]
        known.remove(name)
        self.problems.note(extends.location, "extends", f"unknown variant '{parent}': {suggestion(parent, known)}")
        return base

    def _merge(self, parent: Node, child: Node) -> Node:
        return merge_variant(parent, child, self.find_settings, self.problems)

    def _note_no_algorithm(self, name: str, merged: Node) -> None:
        if all(key in FIELDS or key in BLOCKS for key in merged.value):  # otherwise a wrong name was reported already
            names = ", ".join(algorithm_names())
            self.problems.note(
                merged.location, f"variants.{name}", f"no algorithm: add a block named {names} or module:Name"
            )


def _with_algorithm(name: str, own: Node, problems: Problems) -> Node:
    """A variant named after an algorithm runs it, unless it has the block of a subclass given by reference."""
    written = [key for key in own.value if is_algorithm_key(key)]
    if len(written) > 1:
        second = own.value[written[1]]
        problems.note(second.location, written[1], f"a second algorithm beside {written[0]}: a variant has exactly one")
    shipped = algorithm_names()
    if name in shipped and not written:
        return Node({**own.value, name: Node({}, own.location)}, own.location)
    if name in shipped and written[0] in shipped and written[0] != name:
        block = own.value[written[0]]
        problems.note(
            block.location, written[0], f"the variant is called '{name}' but runs {written[0]}: rename one of them"
        )
    return own


FindSettings = Callable[[str, Location], type[AlgorithmSettings] | None]


def merge_variant(parent: Node, child: Node, find_settings: FindSettings, problems: Problems) -> Node:
    """The child's keys over the parent's; another algorithm's block merges only if its settings class is a subclass."""
    merged = {key: node for key, node in parent.items() if key not in NOT_INHERITED}
    for key, node in child.items():
        if key == "extends":
            continue
        if isinstance(key, str) and key.endswith("+"):
            merged[key[:-1]] = _append(merged.get(key[:-1]), node, key, problems)
        elif is_algorithm_key(key):
            _merge_algorithm(merged, key, node, find_settings)
        elif key in BLOCKS:
            merged[key] = merge_block(merged.get(key), node, key, problems)
        else:
            merged[key] = node
    return Node(merged, child.location)


def merge_block(parent: Node | None, child: Node, name: str, problems: Problems) -> Node:
    """One block over another. An empty block (`policy:` alone) changes nothing."""
    if child.value is None:
        return parent or Node({}, child.location)
    if parent is None:
        parent = Node({}, child.location)
    if not isinstance(child.value, dict) or not isinstance(parent.value, dict):
        return child
    merged = dict(parent.value)
    for key, node in child.value.items():
        if isinstance(key, str) and key.endswith("+"):
            inherited = merged.get(key[:-1]) or _default_list(name, key[:-1], node.location)
            merged[key[:-1]] = _append(inherited, node, f"{name}.{key}", problems)
        elif name.startswith("env") and key in merged and (key == "kwargs" or "." in name):
            merged[key] = merge_block(merged[key], node, f"{name}.{key}", problems)
        else:
            merged[key] = node
    return Node(merged, child.location)


def _merge_algorithm(merged: dict[str, Node], key: str, node: Node, find_settings: FindSettings) -> None:
    inherited = next((name for name in merged if is_algorithm_key(name)), None)
    if inherited is None or inherited == key:
        merged[key] = _algorithm_block(merged.get(key), node)
        return
    parent = merged.pop(inherited)
    settings = find_settings(key, node.location)
    parent_settings = find_settings(inherited, parent.location)
    is_subclass = settings is not None and parent_settings is not None and issubclass(settings, parent_settings)
    merged[key] = _algorithm_block(parent if is_subclass else None, node)


def _algorithm_block(parent: Node | None, child: Node) -> Node:
    if child.value is None:
        return parent if parent is not None else Node({}, child.location)
    if parent is None or not isinstance(parent.value, dict) or not isinstance(child.value, dict):
        return child
    return Node({**parent.value, **child.value}, child.location)


def _default_list(block: str, key: str, location: Location) -> Node | None:
    field = BLOCKS[block].model_fields.get(key) if block in BLOCKS else None
    return to_node(field.default, location) if field is not None and isinstance(field.default, tuple) else None


def _append(inherited: Node | None, more: Node, key: str, problems: Problems) -> Node:
    before = [] if inherited is None or inherited.value is None else inherited.value
    if not isinstance(more.value, list) or not isinstance(before, list):
        problems.note(more.location, key, "appends to a list: write it as a list, [...]")
        return more
    return Node([*before, *more.value], more.location)
