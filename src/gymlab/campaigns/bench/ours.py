"""A training run measured from outside: its speed, and where the rest of the time goes."""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gymlab.campaigns.bench.process import follow

Measured = dict[str, float]


def environment(cache: Path) -> dict[str, str]:
    """Films are a process of their own beside training, and no peer makes them."""
    return {**os.environ, "GYMLAB_CACHE": str(cache), "JAX_PLATFORMS": "cpu", "GYMLAB_VIDEO": "off"}


def train(arguments: Sequence[str], cache: Path) -> Measured:
    """A run with everything else on. Its steady speed leaves out the first call and evaluations."""
    from gymlab.runs.metrics_reader import MetricsReader
    from gymlab.runs.paths import RunPaths

    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        command = [sys.executable, "-m", "gymlab", "train", *arguments, "--jsonl", "--run-id", "bench"]
        followed = follow(command, Path.cwd(), environment(cache) | {"GYMLAB_RUNS": str(runs)})
        with MetricsReader(RunPaths(runs / "bench").metrics) as reader:
            rows = reader.read(["env_steps", "seconds", "time/evaluate"])
    result = json.loads(followed.lines[-1][1])
    evaluating = [0.0 if math.isnan(value) else value for value in rows["time/evaluate"].tolist()]
    steps = rows["env_steps"]
    seconds = rows["seconds"]
    spent = seconds[-1] - seconds[0] - sum(evaluating[:-1])
    lines = followed.lines
    return {
        "steps_per_second": float((steps[-1] - steps[0]) / spent) if spent > 0 else math.nan,
        "evaluation_seconds": sum(evaluating),
        "first_update_seconds": next(at for at, line in lines if '"event": "updated"' in line),
        "exit_seconds": followed.seconds - next(at for at, line in reversed(lines) if '"event": "evaluated"' in line),
        "whole_process_seconds": followed.seconds,
        "peak_mb": followed.peak_mb,
        "env_steps": float(result["env_steps"]),
        "greedy": result["eval"]["greedy"]["mean"],
    }
