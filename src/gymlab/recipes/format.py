"""`gymlab config fmt`: a recipe's keys in the schema's order. Text is moved, never rewritten, so comments stay."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ruamel.yaml.nodes import MappingNode

from gymlab.core.errors import UserError
from gymlab.recipes.merge import BLOCKS
from gymlab.recipes.problems import Problems, shown_path
from gymlab.recipes.schema import Recipe
from gymlab.recipes.yaml_source import compose, read_text

_VARIANT = ("extends", *Recipe.model_fields)  # `algorithm` stands for the block that bears its name


def format_text(text: str, file: str = "recipe") -> str:
    """The text in canonical order; formatting it again changes nothing."""
    tidy = "\n".join(line.rstrip() for line in text.splitlines()).strip("\n") + "\n"
    before = _data(tidy, file)
    for depth in range(4):  # outermost first: moving a block keeps the lines inside it together
        tidy = _sorted_at(tidy, file, depth)
    if _data(tidy, file) != before:
        raise UserError(f"{file}: cannot be put in order, because an alias (*) would come before its anchor (&)")
    return tidy


def format_file(path: Path, *, write: bool) -> bool:
    """Whether a file is out of order; with `write` it is then put in order."""
    shown = shown_path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{shown}: cannot be read: {error}") from None
    tidy = format_text(text, shown)
    if tidy == text:
        return False
    if write:
        fresh = path.with_name(f".{path.name}.tmp")
        fresh.write_text(tidy, encoding="utf-8")
        fresh.replace(path)
    return True


def _data(text: str, file: str) -> Any:
    problems = Problems()
    try:
        node = read_text(text, file, problems)
    except UserError:
        if "&" in text:
            return None
        raise
    problems.raise_any()
    return node.plain()


def _sorted_at(text: str, file: str, depth: int) -> str:
    """Sort every mapping at one depth, the last in the text first, so that earlier positions stay valid."""
    found = [(path, node) for path, node in _mappings(compose(text, file), ()) if len(path) == depth]
    for path, node in reversed(found):
        order = _order(path)
        if order:
            text = _flow(text, node, order) if node.flow_style else _block(text, node, order)
    return text


def _mappings(node: Any, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any]]:
    if not isinstance(node, MappingNode):
        return []
    inner = [found for key, value in node.value for found in _mappings(value, (*path, str(key.value)))]
    return [(path, node), *inner]


def _order(path: tuple[str, ...]) -> tuple[str, ...]:
    """The canonical keys of the mapping at a path of the file; () where the order is the user's own."""
    if not path:
        return ("env", "variants")
    if path == ("env",):
        return tuple(BLOCKS["env"].model_fields)
    if path[0] != "variants" or len(path) < 2:
        return ()
    if len(path) == 2:
        return _VARIANT
    if len(path) > 3:
        return ()
    return tuple(BLOCKS[path[2]].model_fields) if path[2] in BLOCKS else _settings_order(path[2])


def _settings_order(name: str) -> tuple[str, ...]:
    """The keys of an algorithm; for one given by reference those of all that ship, the shared ones first."""
    from gymlab.algorithms.registry import ALGORITHMS

    algorithms = [ALGORITHMS[name]] if name in ALGORITHMS else list(ALGORITHMS.values())
    return tuple(dict.fromkeys(key for algorithm in algorithms for key in algorithm.Settings.model_fields))


def _rank(key: str, order: tuple[str, ...]) -> int:
    bare = key.removesuffix("+")
    if bare in order:
        return order.index(bare)
    unknown = "algorithm" if "algorithm" in order else ""
    return order.index(unknown) if unknown else len(order)


def _block(text: str, node: Any, order: tuple[str, ...]) -> str:
    """Reorders whole lines: each key with the comment lines above it and everything below it."""
    lines = text.splitlines()
    starts = [_with_comments(lines, key.start_mark.line, key.start_mark.column) for key, _ in node.value]
    end = _end(lines, node.value[-1][0]) if node.value else 0
    if len(starts) < 2 or sorted(set(starts)) != starts:
        return text
    chunks = [lines[a:b] for a, b in zip(starts, [*starts[1:], end], strict=True)]
    ranks = [_rank(str(key.value), order) for key, _ in node.value]
    chosen = [chunks[index] for index in sorted(range(len(chunks)), key=lambda index: ranks[index])]
    if chosen == chunks:
        return text
    return "\n".join([*lines[: starts[0]], *(line for chunk in chosen for line in chunk), *lines[end:]]) + "\n"


def _with_comments(lines: list[str], line: int, column: int) -> int:
    """The first of the comment lines directly above a key, at its own indentation; the file's head stays at the top."""
    first = line
    while first > 0 and re.fullmatch(rf" {{{column}}}#.*", lines[first - 1]):
        first -= 1
    return first if first > 0 else line


def _end(lines: list[str], last_key: Any) -> int:
    """The line after the last entry of a block: where something is indented less, or as much in a list above."""
    column: int = last_key.start_mark.column
    end: int = last_key.start_mark.line + 1
    for index in range(end, len(lines)):
        line = lines[index]
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent <= column and not (indent == column and line.lstrip().startswith("- ")):
            break
        if line.strip():
            end = index + 1
    return end


def _flow(text: str, node: Any, order: tuple[str, ...]) -> str:
    """Reorders the entries of `{a: 1, b: 2}`, leaving what stands between them in place."""
    spans = [(key.start_mark.index, value.end_mark.index) for key, value in node.value]
    if len(spans) < 2 or "#" in text[spans[0][0] : spans[-1][1]]:
        return text
    ranks = [_rank(str(key.value), order) for key, _ in node.value]
    chosen = sorted(range(len(spans)), key=lambda index: ranks[index])
    pieces = [text[: spans[0][0]]]
    for position, index in enumerate(chosen):
        start, stop = spans[index]
        pieces.append(text[start:stop])
        pieces.append(text[spans[position][1] : spans[position + 1][0]] if position + 1 < len(spans) else "")
    return "".join(pieces) + text[spans[-1][1] :]
