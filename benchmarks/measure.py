"""The peers' venv, and scripts measured in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from gymlab.campaigns.bench.measure import Measured, bench_environ, measure_process

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / ".venv-peers"
PEER_PACKAGES = [
    "torch==2.13.0", "stable-baselines3==2.9.2", "sbx-rl==0.28.0", "gymnasium[box2d]", "ale-py==0.12.1",
    "opencv-python-headless==5.0.0.93",
]  # fmt: skip


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


def peer(python: Path, script: str, *arguments: str) -> Measured:
    """A script of benchmarks/peers, which prints one JSON line."""
    command = [str(python), str(ROOT / "benchmarks" / "peers" / f"{script}.py"), *arguments]
    process = measure_process(command, ROOT, {**os.environ, "JAX_PLATFORMS": "cpu"})
    found: Measured = json.loads(process.lines[-1][1])
    return {**found, "whole_process_seconds": process.seconds, "peak_mb": process.peak_mb}


def script(path: str, *arguments: str, cache: Path) -> Any:
    """A script of ours in a process of its own, which prints one JSON line."""
    command = [sys.executable, str(ROOT / "benchmarks" / path), *arguments]
    return json.loads(measure_process(command, ROOT, bench_environ(cache)).lines[-1][1])


def help_seconds() -> Measured:
    return {"seconds": measure_process([sys.executable, "-m", "gymlab", "--help"], ROOT, os.environ).seconds}
