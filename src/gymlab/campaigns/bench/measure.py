"""Measurement of a process from outside: its time and memory, and of a training run its speed."""

from __future__ import annotations

import json
import math
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gymlab.core.errors import GymlabError
from gymlab.process.child import Child, module_command

Measured = dict[str, float]


class MeasuredProcess(NamedTuple):
    lines: list[tuple[float, str]]  # of its stdout, each with the second at which it came
    seconds: float
    peak_mb: float  # NaN where the system does not say


def measure_process(command: Sequence[str], folder: Path, environ: Mapping[str, str]) -> MeasuredProcess:
    """Run a command to its end; GymlabError with the end of its stderr where it fails."""
    start = time.perf_counter()
    with Child(command, folder=folder, environ=environ, stdout="pipe", stderr="file") as child:
        lines = [(time.perf_counter() - start, line) for line in child.lines()]
        peak = child.wait_peak_memory()
        seconds = time.perf_counter() - start
        if child.exit_code:
            message = child.stderr_text()[-2000:].strip()
            raise GymlabError(f"{' '.join(command)} ended with {child.exit_code}:\n{message}")
    return MeasuredProcess(lines, seconds, peak)


def bench_environ(cache: Path) -> dict[str, str]:
    """Environment variables of a measured training: no videos, which a second process would make and no peer has."""
    return {**os.environ, "GYMLAB_CACHE": str(cache), "JAX_PLATFORMS": "cpu", "GYMLAB_VIDEO": "off"}


def measure_training(arguments: Sequence[str], cache: Path) -> Measured:
    """Train with everything else on. The steady speed excludes the first call and evaluations."""
    from gymlab.runs.metrics_reader import MetricsReader
    from gymlab.runs.paths import RunPaths

    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        command = module_command("gymlab", "train", *arguments, "--jsonl", "--run-id", "bench")
        process = measure_process(command, Path.cwd(), bench_environ(cache) | {"GYMLAB_RUNS": str(runs)})
        with MetricsReader(RunPaths(runs / "bench").metrics) as reader:
            rows = reader.read(["env_steps", "seconds", "time/evaluate"])
    result = json.loads(process.lines[-1][1])
    evaluating = [0.0 if math.isnan(value) else value for value in rows["time/evaluate"].tolist()]
    steps = rows["env_steps"]
    seconds = rows["seconds"]
    spent = seconds[-1] - seconds[0] - sum(evaluating[:-1])
    lines = process.lines
    return {
        "steps_per_second": float((steps[-1] - steps[0]) / spent) if spent > 0 else math.nan,
        "evaluation_seconds": sum(evaluating),
        "first_update_seconds": next(at for at, line in lines if '"event": "updated"' in line),
        "exit_seconds": process.seconds - next(at for at, line in reversed(lines) if '"event": "evaluated"' in line),
        "whole_process_seconds": process.seconds,
        "peak_mb": process.peak_mb,
        "env_steps": float(result["env_steps"]),
        "greedy": result["eval"]["greedy"]["mean"],
    }
