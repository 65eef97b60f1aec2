"""References to Python objects (`module:Name`, `./file.py:Name`), by which users extend gymlab without editing it."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType

from gymlab.core.errors import UserError, suggestion

_FILE = re.compile(r"(?P<path>.+\.py):(?P<name>[A-Za-z_]\w*)")
_MODULE = re.compile(r"(?P<module>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*):(?P<name>[A-Za-z_]\w*)")


def is_reference(text: str) -> bool:
    """Whether `text` is written like `module:Name` or `./file.py:Name`."""
    return bool(_FILE.fullmatch(text) or _MODULE.fullmatch(text))


def load_reference(ref: str, base: Path | None = None) -> object:
    """The object a reference names; files are looked up from `base`, else from the current folder."""
    module = reference_module(ref, base)
    name = ref.rpartition(":")[2]
    if not hasattr(module, name):
        public = [key for key in vars(module) if not key.startswith("_")]
        raise UserError(f"'{ref}': '{ref.rpartition(':')[0]}' has no '{name}': {suggestion(name, public)}")
    found: object = getattr(module, name)
    return found


def reference_module(ref: str, base: Path | None = None) -> ModuleType:
    """The module before the `:` of a reference, imported."""
    where = ref.rpartition(":")[0]
    if not where:
        raise UserError(f"'{ref}' is no reference: expected module:Name or ./file.py:Name")
    if where.endswith(".py"):
        return _load_file(ref, _resolve(where, base))
    make_importable()
    return import_module(where, f"'{ref}'")


def reference_hash(ref: str, base: Path | None = None) -> str:
    """The sha256 of the source file a reference points into."""
    where = ref.rpartition(":")[0]
    if where.endswith(".py"):
        path = _resolve(where, base)
    else:
        source = getattr(reference_module(ref, base), "__file__", None)
        if source is None:
            raise UserError(f"'{ref}': module '{where}' has no source file")
        path = Path(source)
    if not path.is_file():
        raise UserError(f"'{ref}': there is no file '{path}'")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def import_module(name: str, subject: str) -> ModuleType:
    """Import a user's module; UserError, in one line that begins with `subject`, where that fails."""
    make_importable()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise UserError(
                f"{subject}: there is no module '{name}' in the current folder or among the installed packages"
            ) from error
        raise UserError(f"{subject}: importing '{name}' failed: {_brief(error)}") from error
    except Exception as error:  # any error of the module's author
        raise UserError(f"{subject}: importing '{name}' failed: {_brief(error)}") from error


def make_importable() -> None:
    """Put the current folder on the import path, as `python -m` does."""
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)


def _resolve(where: str, base: Path | None) -> Path:
    return ((base or Path.cwd()) / Path(where).expanduser()).resolve()


def _load_file(ref: str, path: Path) -> ModuleType:
    if not path.is_file():
        near = [f"./{other.name}" for other in path.parent.glob("*.py")] if path.parent.is_dir() else []
        hint = f": {suggestion(f'./{path.name}', near)}" if near else ""
        raise UserError(f"'{ref}': there is no file '{path}'{hint}")
    # The name is unique to the path and the same in every process, so that what the file registers stays findable.
    name = f"gymlab_file_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    make_importable()
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # any error of the file's author
        del sys.modules[name]
        raise UserError(f"'{ref}': importing '{path.name}' failed: {_brief(error)}") from error
    return module


def _brief(error: Exception) -> str:
    """`ValueError: text (file.py:12)`: an error and its innermost frame, in place of a traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"
