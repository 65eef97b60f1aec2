"""What is wrong with a recipe, and where. All problems are collected and reported in one error."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from gymlab.core.errors import UserError

KeyPath = tuple[Any, ...]  # keys and list positions from the root of a variant


class Place(NamedTuple):
    """Where a value was written."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


COMMAND_LINE = Place("command line")


class Problem(NamedTuple):
    """One thing to mend: `file:line: key: what is wrong`."""

    place: Place
    key: str
    text: str

    def __str__(self) -> str:
        return ": ".join(str(part) for part in (self.place, self.key, self.text) if str(part))


class RecipeError(UserError):
    """One message for all problems of a recipe."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        super().__init__("\n".join(map(str, self.problems)))


class Problems(list[Problem]):
    """Collects problems until they are raised together."""

    def note(self, place: Place, key: str | KeyPath, text: str) -> None:
        self.append(Problem(place, key if isinstance(key, str) else dotted(key), text))

    def raise_any(self) -> None:
        if self:
            raise RecipeError(self)


def dotted(path: KeyPath) -> str:
    """`("env", "wrappers", 0)` as `env.wrappers[0]`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def shown_path(path: Path) -> str:
    """The path as the user would type it: relative where it lies below the current folder."""
    absolute = path.absolute()
    cwd = Path.cwd()
    return str(absolute.relative_to(cwd)) if absolute.is_relative_to(cwd) else str(path)


def brief(value: Any, limit: int = 60) -> str:
    """A value for an error message."""
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
