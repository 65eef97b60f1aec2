"""One process measured: how long it took, where the time went, and the most memory it held."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / ".venv-peers"
PEER_PACKAGES = [
    "torch==2.13.0", "stable-baselines3==2.9.2", "sbx-rl==0.28.0", "gymnasium[box2d]", "ale-py==0.12.1",
    "opencv-python-headless==5.0.0.93",
]  # fmt: skip
Measured = dict[str, float]


def peers_python() -> Path | None:
    """The peers' interpreter; makes the venv on first use. None where they cannot be installed."""
    python = PEERS / "bin" / "python"
    if not python.exists():
        print("making .venv-peers with Stable-Baselines3 and SBX (a few minutes, once) ...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", PEERS], check=True)
        done = subprocess.run([python, "-m", "pip", "install", "-q", *PEER_PACKAGES], check=False)
        if done.returncode:
            print("the peers could not be installed: only gymlab is measured", flush=True)
            return None
    return python


def environment(cache: Path) -> dict[str, str]:
    """Films are a process of their own beside training, and no peer makes them."""
    return {**os.environ, "GYMLAB_CACHE": str(cache), "JAX_PLATFORMS": "cpu", "GYMLAB_VIDEO": "off"}


def train(*arguments: str, cache: Path) -> Measured:
    """A gymlab run with everything on. Its steady speed leaves out the first call and evaluations."""
    from gymlab.runs.metrics import MetricsReader
    from gymlab.runs.paths import RunPaths

    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "gymlab", "train", *arguments, "--jsonl", "--run-id", "bench"]
        lines, took = _followed(command, Path(folder), environment(cache))
        with MetricsReader(RunPaths(Path(folder) / "runs" / "bench").metrics) as reader:
            rows = reader.read(["env_steps", "seconds", "time/evaluate"])
    result = json.loads(lines[-1][1])
    evaluating = [0.0 if math.isnan(value) else value for value in rows["time/evaluate"].tolist()]
    steps, seconds = rows["env_steps"], rows["seconds"]
    spent = seconds[-1] - seconds[0] - sum(evaluating[:-1])
    return {
        "steps_per_second": float((steps[-1] - steps[0]) / spent),
        "evaluation_seconds": sum(evaluating),
        "first_update_seconds": next(at for at, line in lines if '"event": "updated"' in line),
        "exit_seconds": took["seconds"] - next(at for at, line in reversed(lines) if '"event": "evaluated"' in line),
        "whole_process_seconds": took["seconds"],
        "peak_mb": took["peak_mb"],
        "env_steps": float(result["env_steps"]),
        "greedy": result["eval"]["greedy"]["mean"],
    }


def peer(python: Path, script: str, *arguments: str) -> Measured:
    """A script of benchmarks/peers, which prints one JSON line."""
    command = [str(python), str(ROOT / "benchmarks" / "peers" / f"{script}.py"), *arguments]
    lines, took = _followed(command, ROOT, {**os.environ, "JAX_PLATFORMS": "cpu"})
    found: Measured = json.loads(lines[-1][1])
    return {**found, "whole_process_seconds": took["seconds"], "peak_mb": took["peak_mb"]}


def script(path: str, *arguments: str, cache: Path) -> Any:
    """A script of ours in a process of its own, which prints one JSON line."""
    lines, _ = _followed([sys.executable, str(ROOT / "benchmarks" / path), *arguments], ROOT, environment(cache))
    return json.loads(lines[-1][1])


def help_seconds() -> Measured:
    _, took = _followed([sys.executable, "-m", "gymlab", "--help"], ROOT, dict(os.environ))
    return {"seconds": took["seconds"]}


def _followed(command: list[str], folder: Path, environ: dict[str, str]) -> tuple[list[tuple[float, str]], Measured]:
    """Each line with the second at which it came; then the whole. What went wrong is shown."""
    began = time.perf_counter()
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=errors, text=True, bufsize=1
        )
        assert process.stdout is not None
        lines = [(time.perf_counter() - began, line) for line in process.stdout]
        _, status, usage = os.wait4(process.pid, 0)
        took = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{errors.read()[-2000:]}")
    return lines, {"seconds": took, "peak_mb": usage.ru_maxrss / 1024}
