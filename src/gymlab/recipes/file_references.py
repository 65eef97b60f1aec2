"""References in a recipe (`./file.py:Name`): made relative to the current folder, and algorithms loaded by them.

A file is searched beside the recipe, then in the current folder.
"""

from __future__ import annotations

from pathlib import Path

from gymlab.algorithms.settings import AlgorithmSettings
from gymlab.core.errors import UserError, suggestion
from gymlab.recipes.problems import COMMAND_LINE, Location, Problems
from gymlab.recipes.schema import algorithm_names
from gymlab.recipes.yaml_source import Node


def rebase_reference(text: str, location: Location) -> str:
    """A reference to a file, relative to the current folder; anything else unchanged."""
    path, colon, name = text.rpartition(":")
    if not colon or not path.endswith(".py") or Path(path).is_absolute() or location == COMMAND_LINE:
        return text
    beside = Path(location.file).parent / path
    if not beside.is_file():
        return text  # relative to the current folder; the loader reports a missing file
    cwd = Path.cwd()
    full = beside.resolve()
    return f"./{full.relative_to(cwd)}:{name}" if full.is_relative_to(cwd) else f"{full}:{name}"


def rebase_references(variant: Node) -> Node:
    """The variant with every file reference relative to the current folder."""
    changed: dict[str, Node] = {}
    for key, node in variant.items():
        name = rebase_reference(key, node.location) if isinstance(key, str) else key
        if key == "features":
            changed[name] = _rebase_parts(node)
        elif key == "env":
            changed[name] = _rebase_keys(node, texts=("id",), parts=("wrappers",))
        elif key == "policy":
            changed[name] = _rebase_keys(node, texts=("encoder",), parts=())
        else:
            changed[name] = _rebase_keys(node, texts=("optimizer",), parts=())  # only an algorithm's block has one
    return Node(changed, variant.location)


def _rebase_keys(block: Node, texts: tuple[str, ...], parts: tuple[str, ...]) -> Node:
    if not isinstance(block.value, dict):
        return block
    changed = dict(block.value)
    for key in texts:
        if key in changed:
            changed[key] = _rebase_text(changed[key])
    for key in parts:
        if key in changed:
            changed[key] = _rebase_parts(changed[key])
    return Node(changed, block.location)


def _rebase_text(node: Node) -> Node:
    return Node(rebase_reference(node.value, node.location), node.location) if isinstance(node.value, str) else node


def _rebase_parts(node: Node) -> Node:
    if not isinstance(node.value, list):
        return node
    items = []
    for item in node.value:
        if isinstance(item.value, dict):
            named = {rebase_reference(k, item.location) if isinstance(k, str) else k: v for k, v in item.value.items()}
            items.append(Node(named, item.location))
        else:
            items.append(_rebase_text(item))
    return Node(items, node.location)


class AlgorithmLookup:
    """Finds the settings class of an algorithm block by its name; faults go to `problems`."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems

    def settings(self, name: str, location: Location) -> type[AlgorithmSettings] | None:
        """The settings class, or None after noting a problem."""
        from gymlab.algorithms.registry import ALGORITHMS

        if name in ALGORITHMS:
            return ALGORITHMS[name].Settings
        try:
            return _by_reference(rebase_reference(name, location))
        except UserError as error:
            self.problems.note(location, name, str(error))
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
