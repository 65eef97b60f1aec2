"""References in a recipe (`./file.py:Name`): found beside the recipe or in the current folder, kept from the latter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gymlab.algorithms.settings import AlgorithmSettings
from gymlab.core.errors import UserError, suggestion
from gymlab.recipes.merge import algorithm_names
from gymlab.recipes.problems import COMMAND_LINE, Place, Problems
from gymlab.recipes.yaml_source import Node


def anchored(text: str, place: Place) -> str:
    """A reference to a file, relative to the current folder; anything else unchanged."""
    where, colon, name = text.rpartition(":")
    if not colon or not where.endswith(".py") or Path(where).is_absolute() or place == COMMAND_LINE:
        return text
    beside = Path(place.file).parent / where
    if not beside.is_file():
        return text  # taken from the current folder; what loads it says if there is no such file
    cwd = Path.cwd()
    full = beside.resolve()
    return f"./{full.relative_to(cwd)}:{name}" if full.is_relative_to(cwd) else f"{full}:{name}"


def anchor_variant(variant: Node) -> Node:
    """Every reference of a variant, anchored."""
    changed: dict[Any, Node] = {}
    for key, node in variant.items():
        name = anchored(key, node.place) if isinstance(key, str) else key
        if key == "features":
            changed[name] = _anchor_parts(node)
        elif key == "env":
            changed[name] = _anchor_keys(node, texts=("id",), parts=("wrappers",))
        elif key == "policy":
            changed[name] = _anchor_keys(node, texts=("encoder",), parts=())
        else:
            changed[name] = node
    return Node(changed, variant.place)


def _anchor_keys(block: Node, texts: tuple[str, ...], parts: tuple[str, ...]) -> Node:
    if not isinstance(block.value, dict):
        return block
    changed = dict(block.value)
    for key in texts:
        if key in changed:
            changed[key] = _anchor_text(changed[key])
    for key in parts:
        if key in changed:
            changed[key] = _anchor_parts(changed[key])
    return Node(changed, block.place)


def _anchor_text(node: Node) -> Node:
    return Node(anchored(node.value, node.place), node.place) if isinstance(node.value, str) else node


def _anchor_parts(node: Node) -> Node:
    if not isinstance(node.value, list):
        return node
    items = []
    for item in node.value:
        if isinstance(item.value, dict):
            named = {anchored(k, item.place) if isinstance(k, str) else k: v for k, v in item.value.items()}
            items.append(Node(named, item.place))
        else:
            items.append(_anchor_text(item))
    return Node(items, node.place)


class Algorithms:
    """Finds the settings class behind an algorithm block's name, and notes what is wrong with it once."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems

    def settings(self, name: str, place: Place) -> type[AlgorithmSettings] | None:
        """The settings class, or None after noting a problem."""
        from gymlab.algorithms.registry import ALGORITHMS

        if name in ALGORITHMS:
            return ALGORITHMS[name].Settings
        try:
            return _by_reference(anchored(name, place))
        except UserError as error:
            self.problems.note(place, name, str(error))
            return None


def _by_reference(name: str) -> type[AlgorithmSettings]:
    from gymlab.algorithms.base import Algorithm
    from gymlab.envs.references import is_reference, load_reference

    if not is_reference(name):
        raise UserError(f"unknown algorithm: {suggestion(name, algorithm_names())}")
    found = load_reference(name)
    if not (isinstance(found, type) and issubclass(found, Algorithm)):
        raise UserError("not an algorithm: it must be a subclass of gymlab.algorithms.base.Algorithm")
    if not isinstance(getattr(found, "Settings", None), type) or not issubclass(found.Settings, AlgorithmSettings):
        raise UserError("an algorithm needs a `Settings` class derived from AlgorithmSettings")
    return found.Settings
