"""gymlab.toml: what holds for a project or a user rather than for a run.

An environment variable beats ./gymlab.toml, which beats the user's own file. Paths are relative to the file's folder.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from gymlab.core.errors import UserError, suggestion

NAME = "gymlab.toml"
_LISTS = ("recipe_folders", "imports")
_VARIABLES = {"runs": "GYMLAB_RUNS", "cache": "GYMLAB_CACHE"}
KEYS = ("runs", "cache", "recipe_folders", "imports")


class Setting(NamedTuple):
    """A value and where it came from."""

    key: str
    value: Any
    source: str


def runs_folder() -> Path:
    """Where runs are kept."""
    return Path(_setting("runs").value)


def cache_folder() -> Path:
    """Where compiled programs are kept."""
    return Path(_setting("cache").value)


def recipe_folders() -> list[Path]:
    """Further folders with recipes, looked up after ./recipes."""
    return [Path(folder) for folder in _setting("recipe_folders").value]


def imports() -> tuple[str, ...]:
    """Modules to import before an env is looked up."""
    return tuple(_setting("imports").value)


def where() -> list[Setting]:
    """Every setting with its source, for `gymlab config where`."""
    return [_setting(key) for key in KEYS]


def settings_files() -> list[Path]:
    """The files that count, first wins."""
    named = os.environ.get("GYMLAB_CONFIG")
    user = Path(named).expanduser() if named else Path.home() / ".config" / "gymlab" / NAME
    if named and not user.is_file():
        raise UserError(f"GYMLAB_CONFIG: there is no file '{named}'")
    return [path for path in (Path(NAME), user) if path.is_file()]


def _setting(key: str) -> Setting:
    variable = _VARIABLES.get(key, "")
    if os.environ.get(variable):
        return Setting(key, str(Path(os.environ[variable]).expanduser()), f"${variable}")
    for path in settings_files():
        values = _read(path)
        if key in values:
            return Setting(key, values[key], str(path))
    default: Any = [] if key in _LISTS else "runs" if key == "runs" else str(_user_cache() / "gymlab")
    return Setting(key, default, "default")


def _user_cache() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    named = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME")
    return Path(named) if named else Path.home() / ".cache"


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        raw = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: not valid TOML: {error}") from None
    faults = [
        f"{path}:{_line(text, key)}: {key}: {fault}" for key, value in raw.items() if (fault := _fault(key, value))
    ]
    if faults:
        raise UserError("\n".join(faults))
    return {key: _anchored(key, value, path.parent) for key, value in raw.items()}


def _fault(key: str, value: Any) -> str:
    if key not in KEYS:
        return f"unknown key: {suggestion(key, KEYS)}"
    if key in _LISTS:
        fits = isinstance(value, list) and all(isinstance(item, str) and item for item in value)
        return "" if fits else f"expected a list of texts, got {value!r}"
    return "" if isinstance(value, str) and value else f"expected a path, got {value!r}"


def _anchored(key: str, value: Any, folder: Path) -> Any:
    if key == "imports":
        return value
    if key == "recipe_folders":
        return [str(folder / Path(item).expanduser()) for item in value]
    return str(folder / Path(value).expanduser())


def _line(text: str, key: str) -> int:
    match = re.search(rf"^[ \t]*\[?[\"']?{re.escape(key)}\b", text, re.MULTILINE)
    return text[: match.start()].count("\n") + 1 if match else 1
