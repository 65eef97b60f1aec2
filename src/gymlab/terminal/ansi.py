"""Styled text as data: a line is a list of spans, and colours come in only when it is written to a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34"}


class Span(NamedTuple):
    text: str
    style: str = ""  # words of the table above, e.g. "bold blue"


Line = list[Span]


def plain(line: Iterable[Span]) -> str:
    """A line without its styles."""
    return "".join(span.text for span in line)


def cropped(text: str, width: int) -> str:
    """At most `width` letters, the last one a sign that there are more."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"[:width]


def written(line: Iterable[Span], width: int, *, colour: bool = True) -> str:
    """A line for a terminal of this width, cut off where it would wrap."""
    parts = []
    left = width
    for text, style in line:
        shown = cropped(text, left)
        left -= len(shown)
        codes = [_CODES[word] for word in style.split()] if colour else []
        parts.append(f"\x1b[{';'.join(codes)}m{shown}\x1b[0m" if codes and shown.strip() else shown)
    return "".join(parts)
