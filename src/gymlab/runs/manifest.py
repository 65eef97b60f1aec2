"""`manifest.json`: how a run was made (command, versions, git state, machine), and the fingerprint that an exact
resume must match.
"""

from __future__ import annotations

import os
import platform as system
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path
from typing import cast

from gymlab.core.clock import StepClock
from gymlab.core.errors import FormatError
from gymlab.core.types import Json, JsonObject
from gymlab.runs import platform
from gymlab.runs.paths import RunPaths
from gymlab.runs.records import GitState, ManifestEnv, ManifestRecord
from gymlab.runs.redact import redact_argv, redact_tree
from gymlab.runs.status import now, read_record

FORMAT = 2  # of a run's folder: checkpoints, metrics and requests of another one are not read
# Packages whose version can change a number. Those that are not installed are left out.
_PACKAGES = (
    "gymlab",
    "numpy",
    "jax",
    "jaxlib",
    "equinox",
    "optax",
    "gymnasium",
    "box2d",
    "mujoco",
    "ale-py",
    "envpool",
)
_THREAD_VARIABLES = ("XLA_FLAGS", "JAX_ENABLE_X64", "JAX_DEFAULT_MATMUL_PRECISION", "OMP_NUM_THREADS")
_GIT_SECONDS = 2.0


def build_manifest(
    *,
    command: Sequence[str],
    seed: int,
    recipe: str,
    env: ManifestEnv,
    engine: JsonObject,
    references: Mapping[str, str],
    fingerprint: JsonObject,
) -> ManifestRecord:
    """The manifest of a new run. `env` is the resolved stack (with `id`), `engine` the choice and its reason,
    `references` the sha256 of every user file a recipe names. Further keys (algorithm, group, note) may be added.
    """
    facts = {
        "format": FORMAT,
        "created": now(),
        "recipe": recipe,
        "seed": seed,
        "env": dict(env),
        "engine": dict(engine),
        "references": dict(references),
        "versions": versions(),
        "git": _recent_git_state(Path.cwd(), int(time.monotonic() // 60)),
        "platform": {"system": system.platform(), "host": platform.host_name(), "cores": platform.usable_cores()},
        "fingerprint": dict(fingerprint),
    }
    return cast("ManifestRecord", {**redact_tree(facts), "command": redact_argv(command)})


def read_manifest(paths: RunPaths) -> ManifestRecord:
    """The manifest of a run, {} where it cannot be read."""
    return cast("ManifestRecord", read_record(paths.inside(paths.manifest)))


def checkpoint_clock(paths: RunPaths) -> StepClock:
    """The clock that names a run's checkpoint folders: that of its first budget, whatever budget a resume asks for."""
    return "vec_steps" if read_manifest(paths).get("checkpoint_clock") == "vec_steps" else "env_steps"


def require_format(paths: RunPaths) -> None:
    """FormatError where another version of gymlab wrote the run."""
    written = read_manifest(paths).get("format", FORMAT)
    if written != FORMAT:
        raise FormatError(f"run '{paths.run_id}' has format {written!r}, and this gymlab reads {FORMAT}: train it anew")


def versions() -> dict[str, str]:
    """Installed versions, read from package metadata: nothing is imported."""
    return dict(_versions())


@cache
def _versions() -> dict[str, str]:
    found = {"python": system.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def fingerprint(**more: Json) -> dict[str, Json]:
    """Everything known to change rounding. The caller adds what only it knows: `device`, `engine`."""
    return {
        "versions": versions(),
        "implementation": system.python_implementation(),
        "system": system.system(),
        "machine": system.machine(),
        "cpu": platform.cpu_model(),
        "cores": platform.usable_cores(),
        "variables": {name: os.environ[name] for name in _THREAD_VARIABLES if name in os.environ},
        **more,
    }


def compare_fingerprint(before: JsonObject, after: JsonObject) -> list[str]:
    """The differences that break exactness, one line each; none means that a resume can be exact."""
    old = _flat(before)
    new = _flat(after)
    counted = {f"versions.{package}" for package in ("python", *_PACKAGES)}  # an older gymlab may have noted others
    names = [name for name in {**old, **new} if name in counted or not name.startswith("versions.")]
    differing = [name for name in names if old.get(name) != new.get(name)]
    return [
        f"{name.removeprefix('versions.').removeprefix('variables.')}: {_value(old, name)} -> {_value(new, name)}"
        for name in differing
    ]


def _flat(tree: JsonObject, prefix: str = "") -> dict[str, Json]:
    flat: dict[str, Json] = {}
    for key, value in tree.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def _value(flat: JsonObject, name: str) -> str:
    return str(flat[name]) if name in flat else "none"


@lru_cache(maxsize=1)
def _recent_git_state(folder: Path, minute: int) -> GitState | None:
    """`git_state`, cached for the current minute: hundreds of runs may start together."""
    del minute
    return git_state(folder)


def git_state(folder: Path) -> GitState | None:
    """Commit and whether tracked files differ from it; None outside a repository or where git is slow or missing."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "dirty": None if changed is None else bool(changed)}


def _git(folder: Path, *arguments: str) -> str | None:
    program = shutil.which("git")
    if program is None:
        return None
    try:
        done = subprocess.run(
            # A repository's own settings may name programs to run: not from here.
            [program, "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", *arguments],
            cwd=folder,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace").strip()
