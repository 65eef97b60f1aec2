"""A recipe file and its variants: each variant is its env block, its ancestors and itself, merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gymlab.core.errors import suggestion
from gymlab.recipes.file_references import Algorithms
from gymlab.recipes.foreign_keys import foreign
from gymlab.recipes.merge import BLOCKS, FIELDS, VARIANT_NAME, algorithm_names, is_algorithm_key, merge_variant
from gymlab.recipes.problems import Problems, brief
from gymlab.recipes.yaml_source import Node, read_file, read_text

TOP = ("env", "variants")


@dataclass(frozen=True)
class RecipeFile:
    """The two halves of a file."""

    path: Path | None
    root: Node
    env: Node
    variants: dict[str, Node]


class Flat(NamedTuple):
    """A variant with everything it inherits."""

    node: Node
    from_defaults: bool  # its oldest ancestor is an algorithm's name, not a recipe


def read_recipe_file(path: Path, problems: Problems) -> RecipeFile:
    """Read a file and note what is wrong with its outline."""
    return outline(read_file(path, problems), path, problems)


def recipe_text(text: str, file: str, problems: Problems) -> RecipeFile:
    """The same for text."""
    return outline(read_text(text, file, problems), None, problems)


def outline(root: Node, path: Path | None, problems: Problems) -> RecipeFile:
    """Check the outermost keys; what they hold is checked variant by variant."""
    if not isinstance(root.value, dict):
        problems.note(root.place, "", f"a recipe is an env block and variants, got {brief(root.plain())}")
        return RecipeFile(path, root, Node({}, root.place), {})
    for key, node in root.items():
        if key not in TOP:
            problems.note(node.place, str(key), f"unknown key: {_outer_hint(str(key))}")
    env = root.get("env") or Node({}, root.place)
    if not isinstance(env.value, dict):
        problems.note(env.place, "env", f"expected a block of keys, got {brief(env.plain())}")
        env = Node({}, env.place)
    return RecipeFile(path, root, env, _variants(root.get("variants"), problems))


def _outer_hint(key: str) -> str:
    if key in FIELDS or is_algorithm_key(key) or foreign(key, None):
        return "it belongs inside a variant, below `variants:`"
    return suggestion(key, TOP)


def _variants(node: Node | None, problems: Problems) -> dict[str, Node]:
    if node is None or node.value is None:
        return {}
    if not isinstance(node.value, dict):
        problems.note(node.place, "variants", f"expected named variants, got {brief(node.plain())}")
        return {}
    variants = {}
    for name, variant in node.items():
        if not isinstance(name, str) or not VARIANT_NAME.fullmatch(name):
            problems.note(
                variant.place, "variants", f"a variant's name is letters, digits, _ - and ., got {brief(name)}"
            )
        elif variant.value is not None and not isinstance(variant.value, dict):
            problems.note(variant.place, f"variants.{name}", f"expected a block of keys, got {brief(variant.plain())}")
        else:
            variants[name] = variant if variant.value is not None else Node({}, variant.place)
    return variants


def default_variant(algorithm: str, env: Node) -> Flat:
    """An algorithm's name as a variant of any env."""
    return Flat(Node({"env": env, algorithm: Node({}, env.place)}, env.place), from_defaults=True)


class Flattener:
    """Merges a variant with its ancestors; a parent is looked for in its own file, then in those below it."""

    def __init__(self, files: Sequence[RecipeFile], problems: Problems) -> None:
        self.files = files
        self.problems = problems
        self.find_settings = Algorithms(problems).settings

    def flatten(self, index: int, name: str, seen: tuple[tuple[int, str], ...] = ()) -> Flat:
        file = self.files[index]
        own = file.variants[name]
        base = self._parent(index, name, own, (*seen, (index, name)))
        merged = self._merge(base.node, _with_algorithm(name, own, self.problems))
        if not any(is_algorithm_key(key) for key in merged.value):
            self._note_no_algorithm(name, merged)
        return Flat(merged, base.from_defaults)

    def _parent(self, index: int, name: str, own: Node, seen: tuple[tuple[int, str], ...]) -> Flat:
        file = self.files[index]
        base = Flat(Node({"env": file.env}, file.env.place), from_defaults=False)
        extends = own.get("extends")
        if extends is None:
            return base
        parent = extends.value
        if not isinstance(parent, str):
            self.problems.note(
                extends.place, "extends", f"expected the name of a variant, got {brief(extends.plain())}"
            )
            return base
        if parent in file.variants and parent != name:
            if (index, parent) in seen:
                chain = " -> ".join([*(step for _, step in seen), parent])
                self.problems.note(extends.place, "extends", f"a cycle of inheritance: {chain}")
                return base
            return self.flatten(index, parent, seen)
        for lower in range(index + 1, len(self.files)):
            if parent in self.files[lower].variants:
                inherited = self.flatten(lower, parent, seen)
                return Flat(self._merge(inherited.node, base.node), inherited.from_defaults)
        if parent == name:
            self.problems.note(extends.place, "extends", f"a cycle of inheritance: {name} -> {name}")
            return base
        if parent in algorithm_names():
            return default_variant(parent, file.env)
        known = [*file.variants, *(v for lower in self.files[index + 1 :] for v in lower.variants), *algorithm_names()]
        known.remove(name)
        self.problems.note(extends.place, "extends", f"unknown variant '{parent}': {suggestion(parent, known)}")
        return base

    def _merge(self, parent: Node, child: Node) -> Node:
        return merge_variant(parent, child, self.find_settings, self.problems)

    def _note_no_algorithm(self, name: str, merged: Node) -> None:
        if all(key in FIELDS or key in BLOCKS for key in merged.value):  # else a misspelt name is reported already
            names = ", ".join(algorithm_names())
            self.problems.note(
                merged.place, f"variants.{name}", f"no algorithm: add a block named {names} or module:Name"
            )


def _with_algorithm(name: str, own: Node, problems: Problems) -> Node:
    """A variant called like an algorithm runs it, unless its own block names a relative by reference."""
    written = [key for key in own.value if is_algorithm_key(key)]
    if len(written) > 1:
        second = own.value[written[1]]
        problems.note(second.place, written[1], f"a second algorithm beside {written[0]}: a variant has exactly one")
    shipped = algorithm_names()
    if name in shipped and not written:
        return Node({**own.value, name: Node({}, own.place)}, own.place)
    if name in shipped and written[0] in shipped and written[0] != name:
        block = own.value[written[0]]
        problems.note(
            block.place, written[0], f"the variant is called '{name}' but runs {written[0]}: rename one of them"
        )
    return own
