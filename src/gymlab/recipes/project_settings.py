"""gymlab.toml: settings of a project or a user (folders, imports, the LLM, overrides of recipes).

An environment variable beats ./gymlab.toml, which beats the user's own file. Paths are relative to the file's folder.
`[overrides]` maps a recipe, an env or a pattern to `key=value` texts that hold unless the command line says otherwise.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from gymlab.core.errors import UserError, suggestion
from gymlab.core.types import Json
from gymlab.recipes.problems import Location
from gymlab.runs.files import write_text

NAME = "gymlab.toml"
_LISTS = ("recipe_folders", "imports")
_VARIABLES = {"runs": "GYMLAB_RUNS", "cache": "GYMLAB_CACHE"}
OVERRIDES = "overrides"
LLM = "llm"
_LLM_KEYS = ("url", "model", "kind", "key_env")
KEYS = ("runs", "cache", "recipe_folders", "imports", LLM, OVERRIDES)


class ProjectSetting(NamedTuple):
    """A value and its source."""

    key: str
    value: Any
    source: str


def runs_folder() -> Path:
    """The folder of runs."""
    return Path(_setting("runs").value)


def cache_folder() -> Path:
    """The cache folder, for compiled programs."""
    return Path(_setting("cache").value)


def recipe_folders() -> list[Path]:
    """Further folders with recipes, searched after ./recipes."""
    return [Path(folder) for folder in _setting("recipe_folders").value]


def imports() -> tuple[str, ...]:
    """Modules to import before an env is looked up."""
    return tuple(_setting("imports").value)


def llm_settings() -> dict[str, str]:
    """Which language model reviews runs: `url`, `model`, `kind` and the variable that holds its key."""
    return dict(_setting(LLM).value)


def overrides(name: str) -> list[tuple[str, Location]]:
    """The overrides for the recipe `ENV:VARIANT` in the order of their application: the user's, then the project's."""
    found: list[tuple[str, Location]] = []
    env = name.rpartition(":")[0]
    for path in reversed(settings_files()):
        text = path.read_text(encoding="utf-8")
        for pattern, texts in _read(path).get(OVERRIDES, {}).items():
            if pattern == env or fnmatchcase(name, pattern) or fnmatchcase(env, pattern):
                found += [(item, Location(str(path), _line(text, pattern))) for item in texts]
    return found


def all_settings() -> list[ProjectSetting]:
    """Every setting with its source, for `gymlab config where`; overrides add up, so each file's are listed."""
    tables = [(path, _read(path).get(OVERRIDES)) for path in settings_files()]
    added = [ProjectSetting(OVERRIDES, table, str(path)) for path, table in tables if table]
    return [
        *(_setting(key) for key in KEYS if key != OVERRIDES),
        *(added or [ProjectSetting(OVERRIDES, {}, "default")]),
    ]


def settings_files() -> list[Path]:
    """The existing settings files, highest priority first."""
    user = user_file()
    if os.environ.get("GYMLAB_CONFIG") and not user.is_file():
        raise UserError(f"GYMLAB_CONFIG: there is no file '{user}'")
    return [path for path in (Path(NAME), user) if path.is_file()]


def user_file() -> Path:
    """The path of the user's own file, which may not exist."""
    named = os.environ.get("GYMLAB_CONFIG")
    return Path(named).expanduser() if named else Path.home() / ".config" / "gymlab" / NAME


def _setting(key: str) -> ProjectSetting:
    variable = _VARIABLES.get(key, "")
    if os.environ.get(variable):
        return ProjectSetting(key, str(Path(os.environ[variable]).expanduser()), f"${variable}")
    for path in settings_files():
        values = _read(path)
        if key in values:
            return ProjectSetting(key, values[key], str(path))
    default: Json = (
        [] if key in _LISTS else {} if key == LLM else "runs" if key == "runs" else str(_user_cache() / "gymlab")
    )
    return ProjectSetting(key, default, "default")


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
    return {key: _resolve_paths(key, value, path.parent) for key, value in raw.items()}


def _fault(key: str, value: Json) -> str:
    if key not in KEYS:
        return f"unknown key: {suggestion(key, KEYS)}"
    if key == OVERRIDES:
        fits = isinstance(value, dict) and all(_is_list(item) for item in value.values())
        return "" if fits else f'expected "ENV:VARIANT" = ["key=value", ...], got {value!r}'
    if key == LLM:
        return _llm_fault(value)
    if key in _LISTS:
        return "" if _is_list(value) else f"expected a list of texts, got {value!r}"
    return "" if isinstance(value, str) and value else f"expected a path, got {value!r}"


def _llm_fault(value: Json) -> str:
    if not isinstance(value, dict) or not all(isinstance(item, str) and item for item in value.values()):
        return f'expected url = "https://..." and model = "...", got {value!r}'
    unknown = next((key for key in value if key not in _LLM_KEYS), None)
    if unknown is not None:
        return f"unknown key {unknown!r}: {suggestion(unknown, _LLM_KEYS)}"
    kinds = ("openai", "anthropic")
    return "" if value.get("kind", "openai") in kinds else f"kind: {suggestion(value['kind'], kinds)}"


def _is_list(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and item for item in value)


def _resolve_paths(key: str, value: Any, folder: Path) -> Json:
    if key in ("imports", LLM, OVERRIDES):
        return value
    if key == "recipe_folders":
        return [str(folder / Path(item).expanduser()) for item in value]
    return str(folder / Path(value).expanduser())


def _line(text: str, key: str) -> int:
    match = re.search(rf"^[ \t]*\[?[ \t]*[\"']?{re.escape(key)}[\"'\]\s.=]", text, re.MULTILINE)
    return text[: match.start()].count("\n") + 1 if match else 1


def write_override(path: Path, name: str, texts: list[str]) -> None:
    """Add or replace one entry of `[overrides]`; the rest of the file stays as it is written. Creates the file."""
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    entry = f"{json.dumps(name)} = [{', '.join(map(json.dumps, texts))}]\n"
    after = insert_override(before, name, entry)
    try:
        expected = tomllib.loads(before)
        expected[OVERRIDES] = {**expected.get(OVERRIDES, {}), name: texts}
        correct = tomllib.loads(after) == expected
    except tomllib.TOMLDecodeError:
        correct = False
    if not correct:
        raise UserError(
            f"{path} is written in a way that cannot be edited here: add by hand, below [overrides]: {entry}"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, after)


def insert_override(text: str, name: str, entry: str) -> str:
    """The text with the entry in its `[overrides]` table, which is added if missing."""
    header = re.search(rf"^[ \t]*\[[ \t]*{OVERRIDES}[ \t]*\][^\n]*(\n|$)", text, re.MULTILINE)
    if header is None:
        gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        return f"{text}{gap}[{OVERRIDES}]\n{entry}"
    rest = text[header.end() :]
    old = re.search(rf"^[ \t]*[\"']{re.escape(name)}[\"'][ \t]*=[ \t]*\[[^\]]*\][^\n]*(\n|$)", rest, re.MULTILINE)
    begin, end = (0, 0) if old is None else old.span()
    head = text[: header.end()]
    return f"{head}{'' if head.endswith(chr(10)) else chr(10)}{rest[:begin]}{entry}{rest[end:]}"
