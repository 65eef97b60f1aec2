"""Duplicate code: the same tokens in two places, whatever the layout, comments and docstrings between them.

    python tools/duplicates.py [FOLDER]     # every pair of places, the longest first

Imports do not count. Part of the report of `tools/house_report.py`.
"""

import ast
import io
import sys
import tokenize
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

LEAST = 50  # tokens in a row: about six lines
_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


class Token(NamedTuple):
    text: str
    line: int


class Duplicate(NamedTuple):
    """As many tokens, beginning at two places."""

    tokens: int
    one: str  # file:line
    other: str

    def __str__(self) -> str:
        return f"{self.one} and {self.other}: {self.tokens} tokens in common"


def tokens_of(source: str) -> list[Token]:
    """The code without layout, comments, docstrings and imports."""
    skipped: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        string = (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        if string or isinstance(node, ast.Import | ast.ImportFrom):
            skipped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    found = tokenize.generate_tokens(io.StringIO(source).readline)
    return [Token(t.string, t.start[0]) for t in found if t.type not in _LAYOUT and t.start[0] not in skipped]


def find_duplicates(files: dict[str, list[Token]], least: int = LEAST) -> list[Duplicate]:
    """Maximal runs of equal tokens, the longest first; of more than two places, each with the first."""
    places: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for name, tokens in files.items():
        texts = [token.text for token in tokens]
        for start in range(len(texts) - least + 1):
            places[tuple(texts[start : start + least])].append((name, start))
    pairs = {(found[0], again) for found in places.values() for again in found[1:] if _apart(found[0], again, least)}
    duplicates = []
    for one, other in pairs:
        if (_moved(one, -1), _moved(other, -1)) in pairs:
            continue  # not where it begins
        length = least
        while (_moved(one, length - least + 1), _moved(other, length - least + 1)) in pairs:
            length += 1
        at = [f"{name}:{files[name][start].line}" for name, start in (one, other)]
        duplicates.append(Duplicate(length, *at))
    return sorted(duplicates, key=lambda found: (-found.tokens, found))


def _apart(one: tuple[str, int], other: tuple[str, int], least: int) -> bool:
    """A list of numbers repeats itself: places that overlap are no duplicates."""
    return one[0] != other[0] or abs(one[1] - other[1]) >= least


def _moved(place: tuple[str, int], by: int) -> tuple[str, int]:
    return place[0], place[1] + by


def duplicates_in(folder: Path, least: int = LEAST) -> list[Duplicate]:
    """Those of all Python files below a folder."""
    paths = sorted(folder.rglob("*.py"))
    files = {str(path.relative_to(folder)): tokens_of(path.read_text(encoding="utf-8")) for path in paths}
    return find_duplicates(files, least)


if __name__ == "__main__":
    chosen = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "src/gymlab"
    print(*duplicates_in(chosen), sep="\n")
