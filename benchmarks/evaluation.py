"""What evaluation beside training costs: training speed with one at every tenth of the budget, against none.

Each run is a process as a user starts it, without films; runs with and without alternate. `make bench` runs it. Written
to benchmarks/results/evaluation.json. Quick look: python benchmarks/evaluation.py --repeats 1 --share 0.2
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "evaluation.json"
LIMIT = 0.9
BUDGETS = {"LunarLander-v3:ppo": 1_000_000, "Acrobot-v1:ppo": 2_000_000}  # the host engine, and the compiled one
KINDS = {"without": ["eval.every=100%"], "with": ["eval.mode=async", "eval.every=10%"]}


def train(recipe: str, budget: int, kind: str) -> dict[str, float]:
    """One run: its speed from its first row to its last, what it waited, and the CPU time of all its processes."""
    from gymlab.runs.metrics_reader import MetricsReader
    from gymlab.runs.paths import RunPaths

    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "gymlab", "train", recipe, "--budget", str(budget), "--full-budget", "-q"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [*command, "--run-id", "bench", *KINDS[kind]], cwd=folder, check=True,
            env={**os.environ, "GYMLAB_VIDEO": "off", "GYMLAB_RUNS": f"{folder}/runs"},
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        with MetricsReader(RunPaths(Path(folder) / "runs" / "bench").metrics) as reader:
            known = reader.names()
            rows = reader.read(["env_steps", "seconds"])
            told = {
                name: reader.read([f"time/{name}"])[f"time/{name}"] if f"time/{name}" in known else None
                for name in ("evaluate", "evaluate_wait")
            }
    steps, seconds = rows["env_steps"], rows["seconds"]
    sums = {name: 0.0 if values is None else float(np.nansum(values)) for name, values in told.items()}
    return {
        "steps_per_second": float((steps[-1] - steps[0]) / (seconds[-1] - seconds[0])),
        "waited_seconds": sums["evaluate_wait"],
        "evaluation_seconds": sums["evaluate"],
        "cpu_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    }


def measure(repeats: int, share: float = 1.0) -> dict[str, dict[str, Any]]:
    """By recipe: medians of either kind, and the speed with evaluations as a share of that without, pair by pair."""
    found = {}
    for recipe, budget in BUDGETS.items():
        runs: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
        steps = int(budget * share)
        train(recipe, steps // 10, "with")  # fills the compilation cache
        for repeat in range(repeats):
            for kind in sorted(KINDS, reverse=repeat % 2 == 1):  # neither is always the first
                runs[kind].append(train(recipe, steps, kind))
                print(f"[{repeat + 1}/{repeats}] {recipe} {kind}: {json.dumps(runs[kind][-1])}", flush=True)
        pairs = zip(runs["with"], runs["without"], strict=True)
        ratios = [one["steps_per_second"] / other["steps_per_second"] for one, other in pairs]
        found[recipe] = {
            "budget": steps,
            "ratio": statistics.median(ratios),
            "ratios": ratios,
            **{
                kind: {name: statistics.median(run[name] for run in every) for name in every[0]}
                for kind, every in runs.items()
            },
        }
    return found


def table(found: dict[str, Any]) -> list[str]:
    """For docs/speed.md."""
    lines = [
        "## What evaluation beside training costs",
        "",
        "Training speed with an evaluation (20 episodes greedy, 20 sampled) at every tenth of the budget in a process "
        f"of its own, against none; medians of pairs of runs. The limit is {LIMIT:g} times the speed without.",
        "",
        "| recipe | budget | without, env steps/s | with | ratio | waited, s | CPU time without, s | with, s |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for recipe, result in found["measured"].items():
        one, other = result["without"], result["with"]
        lines.append(
            f"| {recipe} | {result['budget']:,} | {one['steps_per_second']:,.0f} | {other['steps_per_second']:,.0f} | "
            f"{result['ratio']:.2f} | {other['waited_seconds']:.1f} | {one['cpu_seconds']:.0f} | "
            f"{other['cpu_seconds']:.0f} |"
        )
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0, help="of the budgets")
    options = parser.parse_args()
    os.environ.setdefault("GYMLAB_CACHE", str(ROOT / ".cache" / "bench"))
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    found = measure(options.repeats, options.share)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    RESULTS.parent.mkdir(exist_ok=True)
    facts = {"load_before": load, "cores": cores, "repeats": options.repeats}
    told = {**facts, "measured": found}
    RESULTS.write_text(json.dumps(told, indent=1) + "\n")
    print("\n".join(table(told)))


if __name__ == "__main__":
    main()
