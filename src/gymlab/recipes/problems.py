"""Problems of a recipe, each with file:line. All are collected and raised as one error."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from gymlab.core.errors import UserError

KeyPath = tuple[str | int, ...]  # keys and list positions from the root of a variant


class Location(NamedTuple):
    """The file and line in which a value was written."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


COMMAND_LINE = Location("command line")


class Problem(NamedTuple):
    """One problem: `file:line: key: what is wrong`."""

    location: Location
    key: str
    text: str

    def __str__(self) -> str:
        return ": ".join(str(part) for part in (self.location, self.key, self.text) if str(part))


class RecipeError(UserError):
    """One message for all problems of a recipe."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        super().__init__("\n".join(map(str, self.problems)))


class Problems(list[Problem]):
    """Collects problems until they are raised together."""

    def note(self, location: Location, key: str | KeyPath, text: str) -> None:
        self.append(Problem(location, key if isinstance(key, str) else format_key_path(key), text))

    def raise_any(self) -> None:
        if self:
            raise RecipeError(self)


def format_key_path(path: KeyPath) -> str:
    """`("env", "wrappers", 0)` as `env.wrappers[0]`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def display_path(path: Path) -> str:
    """The path as the user would type it: relative if it lies below the current folder."""
    absolute = path.absolute()
    cwd = Path.cwd()
    return str(absolute.relative_to(cwd)) if absolute.is_relative_to(cwd) else str(path)


def format_value(value: object, limit: int = 60) -> str:
    """A value for an error message, cut to `limit` characters."""
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
