"""MuJoCo: its warnings go to our log, and a working OpenGL backend (MUJOCO_GL) is chosen before it renders."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Callable
from functools import cache

from gymlab.core.errors import UserError
from gymlab.process.child import Child

log = logging.getLogger(__name__)
_logged: set[str] = set()  # each warning once
_SECONDS = 60.0
_RENDER_PROGRAM = (
    "import gymnasium; env = gymnasium.make('InvertedPendulum-v5', render_mode='rgb_array', width=64, height=64); "
    "env.reset(seed=0); assert env.render().std() > 0"
)


def is_mujoco(creator: object) -> bool:
    """Whether an env's class is one of Gymnasium's for MuJoCo, or derived from them."""
    return any(base.__module__.startswith("gymnasium.envs.mujoco") for base in getattr(creator, "__mro__", ()))


def log_warnings() -> None:
    """Log MuJoCo's warnings, which it would write to a file in the current folder and to the screen."""
    mujoco = importlib.import_module("mujoco")
    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_warn)


def _warn(text: str) -> None:
    message = text.partition(" Time = ")[0]
    if message not in _logged:
        _logged.add(message)
        log.log(logging.INFO if "deprecated" in message else logging.WARNING, "MuJoCo: %s", message)


def choose_gl_backend() -> None:
    """Set MUJOCO_GL to a backend that works, before anything is rendered; UserError where none does.

    Each is tried in a child process, because MuJoCo may crash the process where it cannot render.
    """
    requested = os.environ.get("MUJOCO_GL", "")
    backend, tried = _choose(requested)
    if backend:
        os.environ["MUJOCO_GL"] = backend
        return
    message = "; ".join(f"{name}: {problem}" for name, problem in tried)
    hint = "unset MUJOCO_GL to have others tried" if requested else "install a library for EGL or OSMesa"
    raise UserError(f"MuJoCo cannot draw here ({message}): {hint}")


@cache
def _choose(requested: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The first backend that works, or "", and the errors of those before it."""
    if requested:
        names = [requested]
    elif sys.platform.startswith("linux"):
        names = ["egl", "osmesa", *(["glfw"] if os.environ.get("DISPLAY") else [])]
    else:
        names = ["glfw"]
    return first_working(names, try_backend)


def first_working(names: list[str], problem_of: Callable[[str], str]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The first name without a problem, or "", and the problems of those before it."""
    tried: list[tuple[str, str]] = []
    for name in names:
        problem = problem_of(name)
        if not problem:
            return name, tuple(tried)
        tried.append((name, problem))
    return "", tuple(tried)


def try_backend(backend: str, program: str = _RENDER_PROGRAM) -> str:
    """The error when a child process renders with this backend; "" for none."""
    environ = {**os.environ, "MUJOCO_GL": backend, "PYTHONWARNINGS": "ignore"}
    try:
        with Child([sys.executable, "-c", program], environ=environ, stdout="null", stderr="file") as child:
            code = child.wait(_SECONDS)
            stderr = child.stderr_text()
    except OSError as error:
        return f"no answer ({type(error).__name__})"
    if code is None:
        return f"no answer within {_SECONDS:g} s"
    if code < 0:
        return f"it ended the process with signal {-code}"
    lines = [line for line in stderr.splitlines() if line and not line.startswith(" ")]
    errors = [line for line in lines if "Error" in line]
    return "" if code == 0 else (errors or lines or [f"exit code {code}"])[0]
