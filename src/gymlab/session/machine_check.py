"""Checks of this machine for `gymlab doctor`: versions, devices, extras, codecs, folders, and their problems."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import platform as system
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal, NamedTuple

from gymlab.core.errors import GymlabError
from gymlab.core.types import Json
from gymlab.runs import platform
from gymlab.runs.manifest import versions
from gymlab.runs.redact import redact

# The modules of each extra; any one of them is enough.
EXTRAS = {
    "render": ("pygame",),
    "atari": ("ale_py",),
    "box2d": ("Box2D",),
    "mujoco": ("mujoco",),
    "envpool": ("envpool",),
    "minatar": ("minatar",),
    "vizdoom": ("vizdoom",),
    "retro": ("stable_retro", "retro"),
    "minari": ("minari",),
    "plot": ("matplotlib",),
    "video": ("av",),
    "web": ("nicegui",),
    "tensorboard": ("tensorboard",),
    "wandb": ("wandb",),
    "sweep": ("optuna",),
    "ray": ("ray",),
    "mcp": ("mcp",),
    "hub": ("huggingface_hub",),
    "llm": ("httpx",),
    "cuda": ("jax_cuda13_plugin", "jax_cuda12_plugin"),
}
CORE = ("jax", "equinox", "optax", "gymnasium", "numpy", "pydantic", "ruamel.yaml", "typer", "rich", "safetensors")
_VARIABLES = (
    "GYMLAB_RUNS",
    "GYMLAB_CACHE",
    "GYMLAB_CONFIG",
    "GYMLAB_LOG",
    "GYMLAB_GRACE",
    "JAX_PLATFORMS",
    "XLA_FLAGS",
)
_LITTLE_DISK = 2**30
_NO_DISK = 50 * 2**20
_DEVICES = (
    "import json, jax; print(json.dumps([{'platform': d.platform, 'kind': d.device_kind, 'id': d.id}"
    " for d in jax.devices()]))"
)


class MachineProblem(NamedTuple):
    """Something to fix; with an `essential` problem runs may not start."""

    level: Literal["essential", "advice"]
    what: str
    fix: str


def examine() -> dict[str, Json]:
    """Everything `gymlab doctor` prints. `problems` is a list, `ok` is False if one of them is essential."""
    problems: list[MachineProblem] = []
    codecs = _codecs()
    facts: dict[str, Json] = {
        "versions": versions(),
        "machine": _machine(),
        "devices": _devices(problems),
        "extras": {name: any(map(_installed, modules)) for name, modules in EXTRAS.items()},
        "codecs": codecs,
        **_folders(problems),
        "variables": {name: redact(os.environ[name]) for name in _VARIABLES if name in os.environ},
    }
    missing = [name for name in CORE if not _installed(name)]
    if missing:
        problems.append(MachineProblem("essential", f"not installed: {', '.join(missing)}", "pip install gymlab"))
    if not codecs["h264"]:
        problems.append(
            MachineProblem("advice", "no video encoder: runs record no clips", "pip install 'gymlab[video]'")
        )
    facts["problems"] = [problem._asdict() for problem in problems]
    facts["ok"] = all(problem.level != "essential" for problem in problems)
    return facts


def _installed(module: str) -> bool:
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(module)
        return spec is not None and spec.origin is not None  # a folder of that name is not a package
    return False


def _machine() -> dict[str, Json]:
    memory: dict[str, int] = {}
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        memory = {key: int(lines[name].split()[0]) * 1024 for key, name in _MEMORY.items()}
    return {
        "system": system.platform(),
        "cpu": platform.cpu_model(),
        "cores": platform.usable_cores(),
        "memory_bytes": memory.get("total"),
        "memory_free_bytes": memory.get("free"),
    }


_MEMORY = {"total": "MemTotal", "free": "MemAvailable"}


def _devices(problems: list[MachineProblem]) -> list[dict[str, Json]]:
    """JAX's devices, queried in a child process, as a broken driver may hang or crash."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-W", "ignore", "-c", _DEVICES],
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
        )
        devices: list[dict[str, Json]] = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        message = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1:]
        fix = "pip install --force-reinstall jax jaxlib, or JAX_PLATFORMS=cpu where a GPU driver is broken"
        problems.append(MachineProblem("essential", f"JAX does not start: {redact(' '.join(message))}", fix))
        return []
    gpu_here = shutil.which("nvidia-smi") is not None and not any(d["platform"] == "gpu" for d in devices)
    if gpu_here and os.environ.get("JAX_PLATFORMS", "") in ("", "cuda", "gpu"):
        problems.append(
            MachineProblem("advice", "there is an NVIDIA GPU that JAX does not see", "pip install 'gymlab[cuda]'")
        )
    return devices


def _codecs() -> dict[str, Json]:
    ffmpeg = shutil.which("ffmpeg")
    h264 = False
    av = None
    with contextlib.suppress(ImportError):
        import av as library  # type: ignore[import-not-found, unused-ignore]

        av = library.__version__
        h264 = bool({"libx264", "libopenh264", "h264_nvenc", "h264_videotoolbox"} & library.codecs_available)
    return {"av": av, "ffmpeg": ffmpeg, "h264": h264 or ffmpeg is not None}


def _folders(problems: list[MachineProblem]) -> dict[str, Json]:
    from gymlab.recipes.project_settings import cache_folder, runs_folder

    try:
        runs = runs_folder()
        cache = cache_folder()
    except GymlabError as error:
        problems.append(MachineProblem("essential", str(error), "correct the file, or remove it"))
        return {"runs": None, "cache": None}
    return {"runs": _runs(runs, problems), "cache": _cache(cache, problems)}


def _runs(folder: Path, problems: list[MachineProblem]) -> dict[str, Json]:
    fault = _writing_fault(folder)
    if fault:
        fix = "choose another folder with $GYMLAB_RUNS or `runs` in gymlab.toml, on a local disk"
        problems.append(MachineProblem("essential", f"runs folder '{folder}' cannot be used: {fault}", fix))
    free = shutil.disk_usage(_existing(folder)).free
    if free < _LITTLE_DISK:
        level: Literal["essential", "advice"] = "essential" if free < _NO_DISK else "advice"
        fix = "remove runs with `gymlab runs rm RUN`, or move them with $GYMLAB_RUNS"
        problems.append(MachineProblem(level, f"only {free / 2**20:.0f} MiB are free for runs", fix))
    return {"folder": str(folder), "writable": not fault, "free_bytes": free}


def _cache(folder: Path, problems: list[MachineProblem]) -> dict[str, Json]:
    fault = _writing_fault(folder)
    if fault:
        fix = "choose another folder with $GYMLAB_CACHE"
        problems.append(
            MachineProblem("advice", f"cache folder '{folder}' cannot be used ({fault}): runs start slower", fix)
        )
    used = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            used += path.lstat().st_size if path.is_file() else 0
    return {"folder": str(folder), "writable": not fault, "bytes": used}


def _writing_fault(folder: Path) -> str:
    """Why a file cannot be written and locked there, or ''. Creates no folder."""
    where = _existing(folder)
    if where != folder:
        return "" if where.is_dir() and os.access(where, os.W_OK) else f"'{where}' cannot be written"
    try:
        with tempfile.TemporaryDirectory(prefix=".doctor-", dir=folder) as trial:
            path = Path(trial) / "lock"
            fd = platform.open_lock(path)
            try:
                os.write(fd, b"1")
                if not platform.try_lock(fd):
                    return "it cannot be locked"
            finally:
                os.close(fd)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
