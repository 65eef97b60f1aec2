"""Strict YAML 1.2 that remembers where everything was written.

Only plain data: tags, merge keys, duplicate keys and directives are refused, and so are files built to be large.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from gymlab.core.errors import UserError
from gymlab.recipes.problems import KeyPath, Place, Problems, brief, shown_path

MOST_BYTES = 64_000
MOST_NODES = 10_000  # after aliases are expanded
MOST_DEPTH = 20
_CORE = "tag:yaml.org,2002:"
_TEXT_TAGS = ("str", "timestamp", "value")


@dataclass(frozen=True)
class Node:
    """A value and where it was written; mappings and lists hold further nodes."""

    value: Any  # dict[Any, Node], list[Node], or a scalar
    place: Place
    quoted: bool = False

    def plain(self) -> Any:
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def items(self) -> Iterator[tuple[Any, Node]]:
        """The entries of a mapping; none for anything else."""
        return iter(self.value.items() if isinstance(self.value, dict) else ())

    def get(self, *path: Any) -> Node | None:
        node: Node | None = self
        for part in path:
            if node is None:
                return None
            if isinstance(node.value, dict):
                node = node.value.get(part)
            elif isinstance(node.value, list) and isinstance(part, int) and part < len(node.value):
                node = node.value[part]
            else:
                return None
        return node

    def place_of(self, path: KeyPath) -> Place:
        """Where `path` was written, or the nearest thing above it."""
        for length in range(len(path), 0, -1):
            node = self.get(*path[:length])
            if node is not None:
                return node.place
        return self.place


def made(value: Any, place: Place) -> Node:
    """Plain data as a node, all of it from one place."""
    if isinstance(value, dict):
        return Node({key: made(item, place) for key, item in value.items()}, place)
    if isinstance(value, list | tuple):
        return Node([made(item, place) for item in value], place)
    return Node(value, place)


def read_file(path: Path, problems: Problems) -> Node:
    """A YAML file as a node. Raises when it cannot be read at all; lesser faults go to `problems`."""
    shown = shown_path(path)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UserError(f"{shown}: too large for a recipe: {path.stat().st_size} bytes, at most {MOST_BYTES}")
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{shown}:1: not UTF-8 text: {error.reason}") from None
    except OSError as error:
        raise UserError(f"{shown}: cannot be read: {error.strerror}") from None
    return read_text(text, shown, problems)


def read_text(text: str, file: str, problems: Problems) -> Node:
    """YAML text as a node, its places in `file`."""
    tree = compose(text, file)
    if tree is None:
        return Node(None, Place(file, 1))
    return _Reader(file, problems).convert(tree, Place(file, tree.start_mark.line + 1), 0)


def read_value(text: str, place: Place, key: str, problems: Problems) -> Node | None:
    """The value of `key=value`, which may be any YAML; None after noting that it is not."""
    inside = Problems()
    try:
        node = read_text(text, place.file, inside)
    except UserError as error:
        problems.note(place, key, f"{brief(text)} is not valid YAML: {str(error).rpartition(': ')[2]}")
        return None
    for problem in inside:
        problems.note(place, key, problem.text)
    return _moved(node, place)


@lru_cache(maxsize=64)  # the recipes of a group's runs are mostly the same text, which takes 30 ms to read
def _composed(text: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReusedAnchorWarning)
        return YAML(typ="safe", pure=True).compose(text)


def compose(text: str, file: str) -> Any:
    """ruamel's node graph, with every way of failing turned into one error."""
    if len(text) > MOST_BYTES:
        raise UserError(f"{file}: too large for a recipe: {len(text)} characters, at most {MOST_BYTES}")
    if re.search(r"^%", text, re.MULTILINE):
        line = text[: text.index("%")].count("\n") + 1
        raise UserError(f"{file}:{line}: YAML directives (%) are not supported")
    if _bracket_depth(text) > 5 * MOST_DEPTH:  # the parser would take seconds to give up
        raise UserError(f"{file}:1: nested too deeply for a recipe")
    try:
        return _composed(text)
    except ReusedAnchorWarning as error:
        lines = re.findall(r"line (\d+)", str(error))
        raise UserError(f"{file}:{lines[-1] if lines else 1}: the same anchor (&) twice") from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        fault = " ".join(str(part) for part in (error.context, error.problem) if part)
        raise UserError(f"{file}:{mark.line + 1 if mark else 1}: not valid YAML: {fault}") from None
    except RecursionError:
        raise UserError(f"{file}:1: nested too deeply for a recipe") from None
    except YAMLError as error:
        position = getattr(error, "position", 0)
        line = text[:position].count("\n") + 1 if isinstance(position, int) else 1
        raise UserError(f"{file}:{line}: not valid YAML: {str(error).splitlines()[0]}") from None
    except (ValueError, IndexError, TypeError, AttributeError) as error:  # ruamel's own slips on odd input
        raise UserError(f"{file}:1: not valid YAML: {error}") from None


def _bracket_depth(text: str) -> int:
    depth = deepest = 0
    for bracket in re.findall(r"[][{}]", text):
        depth = max(depth + (1 if bracket in "[{" else -1), 0)
        deepest = max(deepest, depth)
    return deepest


def _moved(node: Node, place: Place) -> Node:
    if isinstance(node.value, dict):
        return Node({key: _moved(item, place) for key, item in node.value.items()}, place)
    if isinstance(node.value, list):
        return Node([_moved(item, place) for item in node.value], place)
    return Node(node.value, place, node.quoted)


class _Reader:
    """Turns ruamel's nodes into ours, counting as it goes."""

    def __init__(self, file: str, problems: Problems) -> None:
        self.file = file
        self.problems = problems
        self.count = 0

    def convert(self, node: Any, place: Place, depth: int) -> Node:
        self.count += 1
        if self.count > MOST_NODES or depth > MOST_DEPTH:
            what = "nested too deeply" if depth > MOST_DEPTH else f"more than {MOST_NODES} values, aliases expanded"
            raise UserError(f"{place}: {what}")
        tag = str(node.tag).removeprefix(_CORE)
        if isinstance(node, MappingNode) and tag == "map":
            return Node(self._mapping(node, depth), place)
        if isinstance(node, SequenceNode) and tag == "seq":
            return Node([self.convert(item, self._place(item), depth + 1) for item in node.value], place)
        if isinstance(node, ScalarNode):
            return Node(self._scalar(node, tag, place), place, quoted=bool(node.style))
        self.problems.note(place, "", f"tag {node.tag}: is not supported: write plain values")
        return Node(None, place)

    def _place(self, node: Any) -> Place:
        return Place(self.file, node.start_mark.line + 1)

    def _mapping(self, node: Any, depth: int) -> dict[Any, Node]:
        mapping: dict[Any, Node] = {}
        for key_node, value_node in node.value:
            place = self._place(key_node)
            tag = str(key_node.tag).removeprefix(_CORE)
            if tag == "merge":
                self.problems.note(place, "<<", "merge keys are not supported: use extends")
                continue
            if not isinstance(key_node, ScalarNode):
                self.problems.note(place, "", "a key must be plain text, got a list or a mapping")
                continue
            key = self._scalar(key_node, tag, place)
            value = self.convert(value_node, place, depth + 1)
            if key in mapping:
                self.problems.note(place, str(key), f"duplicate key, first written in line {mapping[key].place.line}")
                continue
            mapping[key] = value
        return mapping

    def _scalar(self, node: Any, tag: str, place: Place) -> Any:
        text: str = node.value
        try:
            return _scalar(text, tag)
        except ValueError as error:
            self.problems.note(place, "", f"tag {node.tag}: {error}: write plain values")
            return text


def _scalar(text: str, tag: str) -> Any:
    if tag == "null":
        return None
    if tag == "bool" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if tag == "int" and len(text) < 100:
        digits = text.replace("_", "").lower()
        return int(digits, 0) if re.match(r"[-+]?0[xob]", digits) else int(digits)
    if tag == "float" and len(text) < 100:
        return float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))
    if tag not in (*_TEXT_TAGS, "bool", "int", "float"):
        raise ValueError("is not supported")
    if tag in _TEXT_TAGS or (tag in ("int", "float") and len(text) >= 100):
        return text
    raise ValueError(f"does not fit {brief(text)}")
