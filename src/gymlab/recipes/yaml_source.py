"""Strict YAML 1.2 parser whose nodes keep their file and line.

Only plain data: tags, merge keys, duplicate keys, directives and oversized files are refused.
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
from ruamel.yaml.nodes import Node as YamlNode

from gymlab.core.errors import UserError
from gymlab.core.types import Json
from gymlab.recipes.problems import KeyPath, Location, Problems, display_path, format_value

MAX_BYTES = 64_000
MAX_NODES = 10_000  # after aliases are expanded
MAX_DEPTH = 20
_CORE = "tag:yaml.org,2002:"
Scalar = str | int | float | bool | None
_TEXT_TAGS = ("str", "timestamp", "value")


@dataclass(frozen=True)
class Node:
    """A value and the place it was written; mappings and lists hold further nodes."""

    value: Any  # dict[str, Node], list[Node], or a scalar
    location: Location
    quoted: bool = False

    def to_data(self) -> Json:
        """The value as plain Python data."""
        if isinstance(self.value, dict):
            return {key: node.to_data() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.to_data() for node in self.value]
        return self.value

    def items(self) -> Iterator[tuple[str, Node]]:
        """The entries of a mapping; none for anything else."""
        return iter(self.value.items() if isinstance(self.value, dict) else ())

    def get(self, *path: str | int) -> Node | None:
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

    def location_of(self, path: KeyPath) -> Location:
        """The location of `path`, or of its nearest ancestor that is written."""
        for length in range(len(path), 0, -1):
            node = self.get(*path[:length])
            if node is not None:
                return node.location
        return self.location


def to_node(value: object, location: Location) -> Node:
    """Plain data as a node whose parts all have one location."""
    if isinstance(value, dict):
        return Node({key: to_node(item, location) for key, item in value.items()}, location)
    if isinstance(value, list | tuple):
        return Node([to_node(item, location) for item in value], location)
    return Node(value, location)


def read_file(path: Path, problems: Problems) -> Node:
    """A YAML file as a node. Raises UserError when it cannot be parsed; other faults go to `problems`."""
    name = display_path(path)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UserError(f"{name}: too large for a recipe: {path.stat().st_size} bytes, at most {MAX_BYTES}")
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{name}:1: not UTF-8 text: {error.reason}") from None
    except OSError as error:
        raise UserError(f"{name}: cannot be read: {error.strerror}") from None
    return read_text(text, name, problems)


def read_text(text: str, file: str, problems: Problems) -> Node:
    """YAML text as a node; `file` is the name in its locations."""
    tree = compose(text, file)
    if tree is None:
        return Node(None, Location(file, 1))
    return _Reader(file, problems).convert(tree, Location(file, tree.start_mark.line + 1), 0)


def read_value(text: str, location: Location, key: str, problems: Problems) -> Node | None:
    """The value of `key=value`, which may be any YAML; None after noting a problem if it is not."""
    inside = Problems()
    try:
        node = read_text(text, location.file, inside)
    except UserError as error:
        problems.note(location, key, f"{format_value(text)} is not valid YAML: {str(error).rpartition(': ')[2]}")
        return None
    for problem in inside:
        problems.note(location, key, problem.text)
    return _relocate(node, location)


@lru_cache(maxsize=64)  # runs of one campaign mostly share a recipe text, which takes 30 ms to parse
def _composed(text: str) -> YamlNode | None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReusedAnchorWarning)
        return YAML(typ="safe", pure=True).compose(text)


def compose(text: str, file: str) -> YamlNode | None:
    """ruamel's node graph; every parse failure becomes a UserError with file and line."""
    if len(text) > MAX_BYTES:
        raise UserError(f"{file}: too large for a recipe: {len(text)} characters, at most {MAX_BYTES}")
    if re.search(r"^%", text, re.MULTILINE):
        line = text[: text.index("%")].count("\n") + 1
        raise UserError(f"{file}:{line}: YAML directives (%) are not supported")
    if _bracket_depth(text) > 5 * MAX_DEPTH:  # the parser would take seconds to give up
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
    except (ValueError, IndexError, TypeError, AttributeError) as error:  # bugs of ruamel on malformed input
        raise UserError(f"{file}:1: not valid YAML: {error}") from None


def _bracket_depth(text: str) -> int:
    depth = deepest = 0
    for bracket in re.findall(r"[][{}]", text):
        depth = max(depth + (1 if bracket in "[{" else -1), 0)
        deepest = max(deepest, depth)
    return deepest


def _relocate(node: Node, location: Location) -> Node:
    if isinstance(node.value, dict):
        return Node({key: _relocate(item, location) for key, item in node.value.items()}, location)
    if isinstance(node.value, list):
        return Node([_relocate(item, location) for item in node.value], location)
    return Node(node.value, location, node.quoted)


class _Reader:
    """Converts ruamel's nodes to ours and enforces the limits on count and depth."""

    def __init__(self, file: str, problems: Problems) -> None:
        self.file = file
        self.problems = problems
        self.count = 0

    def convert(self, node: YamlNode, location: Location, depth: int) -> Node:
        self.count += 1
        if self.count > MAX_NODES or depth > MAX_DEPTH:
            what = "nested too deeply" if depth > MAX_DEPTH else f"more than {MAX_NODES} values, aliases expanded"
            raise UserError(f"{location}: {what}")
        tag = str(node.tag).removeprefix(_CORE)
        if isinstance(node, MappingNode) and tag == "map":
            return Node(self._mapping(node, depth), location)
        if isinstance(node, SequenceNode) and tag == "seq":
            return Node([self.convert(item, self._location(item), depth + 1) for item in node.value], location)
        if isinstance(node, ScalarNode):
            return Node(self._scalar(node, tag, location), location, quoted=bool(node.style))
        self.problems.note(location, "", f"tag {node.tag}: is not supported: write plain values")
        return Node(None, location)

    def _location(self, node: YamlNode) -> Location:
        return Location(self.file, node.start_mark.line + 1)

    def _mapping(self, node: MappingNode, depth: int) -> dict[str, Node]:
        mapping: dict[str, Node] = {}
        for key_node, value_node in node.value:
            location = self._location(key_node)
            tag = str(key_node.tag).removeprefix(_CORE)
            if tag == "merge":
                self.problems.note(location, "<<", "merge keys are not supported: use extends")
                continue
            if not isinstance(key_node, ScalarNode):
                self.problems.note(location, "", "a key must be plain text, got a list or a mapping")
                continue
            key = self._scalar(key_node, tag, location)
            value = self.convert(value_node, location, depth + 1)
            if key in mapping:
                self.problems.note(
                    location, str(key), f"duplicate key, first written in line {mapping[key].location.line}"
                )
                continue
            mapping[key] = value
        return mapping

    def _scalar(self, node: ScalarNode, tag: str, location: Location) -> Any:
        text: str = node.value
        try:
            return _scalar(text, tag)
        except ValueError as error:
            self.problems.note(location, "", f"tag {node.tag}: {error}: write plain values")
            return text


def _scalar(text: str, tag: str) -> Scalar:
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
    raise ValueError(f"does not fit {format_value(text)}")
