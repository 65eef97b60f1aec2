"""`make bench`: gymlab and its peers on the same work in one run, interleaved; medians and spread.

Peers live in a venv of their own (.venv-peers). Writes benchmarks/results/speed.json and docs/speed.md.
Quick look: python benchmarks/run.py --repeats 1
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import evaluation
import overhead

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / ".venv-peers"
PEER_PACKAGES = ["torch==2.13.0", "stable-baselines3==2.9.2", "sbx-rl==0.28.0", "gymnasium[box2d]"]
RESULTS = ROOT / "benchmarks" / "results" / "speed.json"
PAGE = ROOT / "docs" / "speed.md"
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
    return {**os.environ, "GYMLAB_CACHE": str(cache), "JAX_PLATFORMS": "cpu"}


def gymlab(*arguments: str, cache: Path) -> Measured:
    """A training run with everything on; its steady speed leaves out the first call and evaluations."""
    from gymlab.runs.metrics import MetricsReader
    from gymlab.runs.paths import RunPaths

    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "gymlab", "train", *arguments, "--full-budget", "--json", "--run-id", "bench"],
            cwd=folder, env=environment(cache), capture_output=True, text=True, check=True,
        )  # fmt: skip
        wall = time.perf_counter() - began
        result = json.loads(done.stdout.splitlines()[-1])
        with MetricsReader(RunPaths(Path(folder) / "runs" / "bench").metrics) as reader:
            rows = reader.read(["env_steps", "seconds", "time/evaluate"])
    evaluating = [0.0 if math.isnan(value) else value for value in rows["time/evaluate"].tolist()]
    steps, seconds = rows["env_steps"], rows["seconds"]
    spent = seconds[-1] - seconds[0] - sum(evaluating[:-1])
    return {
        "steps_per_second": float((steps[-1] - steps[0]) / spent),
        "evaluation_seconds": sum(evaluating),
        "whole_process_seconds": wall,
        "greedy": result["eval"]["greedy"]["mean"],
    }


def peer(python: Path, *arguments: str) -> Measured:
    done = subprocess.run(
        [python, ROOT / "benchmarks" / "peers" / "ppo.py", *arguments],
        env={**os.environ, "JAX_PLATFORMS": "cpu"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def help_seconds() -> Measured:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "gymlab", "--help"], capture_output=True, check=True)
    return {"seconds": time.perf_counter() - began}


def cases(cache: Path, python: Path | None) -> dict[str, Callable[[], Measured]]:
    """Name -> one measurement."""
    lander = ["LunarLander-v3:ppo", "--budget", "98304"]
    found: dict[str, Callable[[], Measured]] = {
        "help": help_seconds,
        "CartPole-v1 / gymlab compiled": lambda: gymlab("CartPole-v1:ppo", cache=cache),
        "CartPole-v1 / gymlab host": lambda: gymlab("CartPole-v1:ppo", "--engine", "gymnasium", cache=cache),
        "LunarLander-v3 / gymlab host": lambda: gymlab(*lander, cache=cache),
    }
    if python is not None:
        found |= {
            "CartPole-v1 / SB3": lambda: peer(python, "sb3", "CartPole-v1", "100000"),
            "CartPole-v1 / SBX": lambda: peer(python, "sbx", "CartPole-v1", "100000"),
            "LunarLander-v3 / SB3": lambda: peer(python, "sb3", "LunarLander-v3", "98304"),
        }
    return found


def median(values: list[float]) -> float:
    return statistics.median(values)


def page(measured: dict[str, list[Measured]], facts: dict[str, Any]) -> str:
    """docs/speed.md."""
    lines = [
        "# Speed",
        "",
        "Written by `make bench`: all systems in one run, interleaved, same env, hyperparameters (RL-Zoo's), budget; "
        f"medians of {facts['repeats']}, lowest and highest in brackets. gymlab runs with statistics, recording and "
        "checkpoints on; evaluation is a column of its own and is not in the speed.",
        "",
        f"Machine: {facts['cores']} cores, {facts['machine']}. Versions: "
        + ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
        + ".",
        "",
        "| env | system | env steps/s | × SB3 | whole process, s | of it evaluation, s |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for name, repeats in measured.items():
        if " / " not in name:
            continue
        env, system = name.split(" / ")
        speeds = [r["steps_per_second"] for r in repeats]
        base = [r["steps_per_second"] for r in measured.get(f"{env} / SB3", [])]
        ratio = f"{median(speeds) / median(base):.1f}" if base else "-"
        wall = median([r["whole_process_seconds"] for r in repeats])
        evaluating = [r["evaluation_seconds"] for r in repeats if "evaluation_seconds" in r]
        lines.append(
            f"| {env} | {system} | {median(speeds):,.0f} [{min(speeds):,.0f}, {max(speeds):,.0f}] | {ratio} | "
            f"{wall:.1f} | {f'{median(evaluating):.1f}' if evaluating else '-'} |"
        )
    helps = [r["seconds"] for r in measured["help"]]
    lines += ["", f"`gymlab --help`: {median(helps):.2f} s.", ""]
    if overhead.RESULTS.is_file():
        lines += overhead.table(json.loads(overhead.RESULTS.read_text())["measured"])
    if evaluation.RESULTS.is_file():
        lines += evaluation.table(json.loads(evaluation.RESULTS.read_text())["measured"])
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    options = parser.parse_args()
    cache = ROOT / ".cache" / "bench"
    todo = {name: run for name, run in cases(cache, peers_python()).items() if options.only in name or name == "help"}
    measured: dict[str, list[Measured]] = {name: [] for name in todo}
    for repeat in range(options.repeats + 1):  # the first round warms caches and is not counted
        for name, run in todo.items():
            result = run()
            if repeat:
                measured[name].append(result)
            told = ", ".join(f"{key} {value:,.2f}" for key, value in result.items())
            print(f"[{repeat}/{options.repeats}] {name}: {told}", flush=True)
    for more in ("overhead.py", "evaluation.py"):
        subprocess.run([sys.executable, ROOT / "benchmarks" / more], env=environment(cache), check=True)
    facts = {
        "repeats": options.repeats,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "machine": platform.machine(),
        "versions": {name: metadata.version(name) for name in ("gymlab", "jax", "gymnasium", "numpy")}
        | dict(text.split("==") for text in PEER_PACKAGES if "==" in text),
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"facts": facts, "measured": measured}, indent=1) + "\n")
    PAGE.write_text(page(measured, facts))
    print(f"written: {PAGE.relative_to(ROOT)}, {RESULTS.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
