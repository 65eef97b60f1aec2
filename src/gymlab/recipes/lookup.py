"""`ENV[:VARIANT]`: which env is meant, which files describe it, and in which order they count."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

from gymlab.core.errors import UserError, suggestion
from gymlab.recipes.problems import COMMAND_LINE, Problem, RecipeError
from gymlab.recipes.project_settings import recipe_folders

PACKAGED = Path(__file__).parent / "data"
SUFFIXES = (".yaml", ".yml")
_IDS = re.compile(r"(?:^|[\s{,])id:\s*['\"]?([^\s'\",}#]+)")


@dataclass(frozen=True)
class Target:
    """What a reference points at."""

    env: str  # as written: an id, a reference or the path of a recipe
    variant: str | None
    files: tuple[Path, ...]  # first match wins; lower ones can be extended
    only_first: bool = False  # a path: variants come from this file alone
    note: str = ""  # what an old name of the env is now


def find(reference: str) -> Target:
    """Split a reference and find the recipe files of its env."""
    head, colon, tail = reference.rpartition(":")
    errors: dict[str, UserError] = {}
    # What follows the last ':' is a variant only if what precedes it is an env.
    for env, variant in ((head, tail), (reference, None)) if colon else ((reference, None),):
        try:
            target = _target(env, variant)
        except UserError as error:
            errors[env] = error
            continue
        if variant == "":
            raise _fault(f"'{reference}': name a variant after the ':', or leave it out")
        return target
    about_env = head in errors and (
        is_yaml(head) or (not _is_module(head) and ("did you mean" in str(errors[head]) or "-v" in head))
    )
    raise _fault(str(errors[head] if about_env else errors[reference]))


def is_yaml(text: str) -> bool:
    """Whether a reference is the path of a recipe file."""
    return text.lower().endswith(SUFFIXES)


def file_name(env_id: str) -> str:
    """The name of an env's recipe file: `ALE/Pong-v5` is in `ALE-Pong-v5.yaml`."""
    text = re.sub(r"[^\w.-]+", "-", env_id.removeprefix("./").replace(".py:", "-")).strip("-.")
    return f"{text[:100] or 'recipe'}.yaml"


def packaged_files() -> list[Path]:
    """The recipes that ship."""
    return sorted(PACKAGED.glob("*.yaml"))


def user_files() -> list[Path]:
    """The recipes of the current folder, then of the folders named in gymlab.toml."""
    folders = [Path("recipes"), *recipe_folders()]
    return [path for folder in folders for path in sorted(folder.glob("*")) if path.suffix in SUFFIXES]


def _target(env: str, variant: str | None) -> Target:
    from gymlab.envs.registry import resolve_id

    if is_yaml(env):
        path = Path(env).expanduser()
        if not _is_file(path):
            near = [str(other) for other in (*path.parent.glob("*.y*ml"), *Path("recipes").glob("*.y*ml"))]
            raise UserError(f"there is no file '{env}'{f': {suggestion(env, near)}' if near else ''}")
        return Target(env, variant, (path, *_files_below(path)), only_first=True)
    try:
        return Target(env, variant, tuple(files_of(env)), note=resolve_id(env).note)
    except UserError:
        named = [path for path in user_files() if path.stem == env]
        if not named:
            raise
    return Target(env, variant, (*named, *(path for path in _files_below(named[0]) if path not in named)))


def _files_below(path: Path) -> list[Path]:
    ids = _ids(path)
    return [other for other in files_of(ids[0]) if other.resolve() != path.resolve()] if ids else []


def files_of(env: str) -> list[Path]:
    """The recipe files whose env block names this env, the user's before ours."""
    from gymlab.envs.registry import resolve_id

    try:
        canonical = resolve_id(env).id
    except UserError:
        canonical = env
    mine = [path for path in user_files() if _names(path, canonical)]
    packaged = PACKAGED / file_name(canonical)
    return [*mine, packaged] if packaged.is_file() else mine


def _names(path: Path, env_id: str) -> bool:
    """Whether a file's first `id:` is this env, under its present or an older name. No YAML is parsed for this."""
    from gymlab.envs.registry import resolve_id

    ids = _ids(path)
    if not ids:
        return False
    if ids[0] == env_id:
        return True
    stem = re.split(r"-v\d", env_id.rpartition("/")[2])[0]
    if ":" in ids[0] or stem not in ids[0]:
        return False
    try:
        return resolve_id(ids[0]).id == env_id
    except UserError:
        return False


def _ids(path: Path) -> list[str]:
    try:
        return _IDS.findall(path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return []


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # too long for a name, or with characters no name can have
        return False


def _is_module(text: str) -> bool:
    if text.endswith(".py"):
        return True
    try:
        return bool(re.fullmatch(r"[A-Za-z_][\w.]*", text)) and importlib.util.find_spec(text) is not None
    except (ImportError, ValueError, AttributeError):
        return "." in text


def _fault(text: str) -> RecipeError:
    return RecipeError([Problem(COMMAND_LINE, "", text)])
