"""What watching costs: CartPole-v1 with RL-Zoo's settings, full statistics against basic, on both engines.

Both are trained in one process in turns of some updates, rows stored as in a run; `make bench` runs it. Written to
benchmarks/results/overhead.json. Quick look: python benchmarks/overhead.py --repeats 5
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "overhead.json"
LIMIT = 0.05
ENGINES = {"compiled": "jax", "host": "gymnasium"}
UPDATES = {"compiled": 60, "host": 30}  # of one turn: about half a second


class Run:
    """A run that is trained a little at a time, with everything that touches metrics."""

    def __init__(self, engine: str, kind: str, folder: Path) -> None:
        from gymlab.core.clock import Clock
        from gymlab.recipes.resolve import resolve
        from gymlab.runs.metrics_writer import MetricsWriter
        from gymlab.session.build import build

        settings = [f"engine={engine}", f"metrics.statistics={kind}", "budget=100M", "eval.every=100%"]
        self.parts = build(resolve("CartPole-v1:ppo", settings).recipe, 0)
        self.writer = MetricsWriter(folder / f"{engine}-{kind}.db")
        self.state, self.clock = self.parts.program.start(0), Clock()

    def turn(self, updates: int) -> tuple[float, float]:
        """Seconds and CPU seconds that some updates take."""
        from gymlab.features.machine_metrics import MachineMetrics
        from gymlab.features.record import Record
        from gymlab.training.loop import Loop

        plan = dataclasses.replace(self.parts.plan, updates=self.clock.updates + updates)
        features = [MachineMetrics(self.parts.histogram_schedule, self.parts.program.most), Record(self.writer)]
        loop = Loop(self.parts.program, plan, features)
        began, used = time.perf_counter(), time.process_time()
        self.state, self.clock, *_ = loop.run(self.state, self.clock)
        return time.perf_counter() - began, time.process_time() - used


def measure(repeats: int) -> dict[str, dict[str, Any]]:
    """By engine: env steps per second of either kind, and the extra time of full statistics, paired turn by turn."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, engine in ENGINES.items():
            runs = {kind: Run(engine, kind, Path(folder)) for kind in ("basic", "full")}
            for run in runs.values():
                run.turn(UPDATES[name])  # compiles
            turns: dict[str, list[tuple[float, float]]] = {kind: [] for kind in runs}
            for repeat in range(repeats):
                for kind in sorted(runs, reverse=repeat % 2 == 1):  # neither is always the first
                    turns[kind].append(runs[kind].turn(UPDATES[name]))
            found[name] = _result(turns, UPDATES[name] * 256)
            print(f"{name}: {json.dumps(found[name])}", flush=True)
            for run in runs.values():
                run.writer.close()
                run.parts.program.close()
    return found


def _result(turns: dict[str, list[tuple[float, float]]], env_steps: int) -> dict[str, Any]:
    pairs = list(zip(turns["full"], turns["basic"], strict=True))
    return {
        "steps_per_second": {
            kind: statistics.median(env_steps / seconds for seconds, _ in every) for kind, every in turns.items()
        },
        "extra_time": statistics.median(full[0] / basic[0] - 1 for full, basic in pairs),
        "extra_cpu_time": statistics.median(full[1] / basic[1] - 1 for full, basic in pairs),
        "turns": len(pairs),
    }


def table(found: dict[str, Any]) -> list[str]:
    """For docs/speed.md."""
    turns = min(result["turns"] for result in found["measured"].values())
    lines = [
        "## What watching costs",
        "",
        "CartPole-v1:ppo with full statistics (`metrics.statistics: full`, the default) against `basic`, trained in "
        f"turns in one process, rows stored; medians over {turns} pairs of turns. The limit is {LIMIT:.0%}.",
        "",
        "| engine | basic, env steps/s | full, env steps/s | extra time | extra CPU time |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, result in found["measured"].items():
        speed = result["steps_per_second"]
        lines.append(
            f"| {name} | {speed['basic']:,.0f} | {speed['full']:,.0f} | {result['extra_time']:+.1%} | "
            f"{result['extra_cpu_time']:+.1%} |"
        )
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=25)
    options = parser.parse_args()
    os.environ.setdefault("GYMLAB_CACHE", str(ROOT / ".cache" / "bench"))
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    found = measure(options.repeats)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    RESULTS.parent.mkdir(exist_ok=True)
    told = {"load": load, "measured": found}
    RESULTS.write_text(json.dumps(told, indent=1) + "\n")
    print("\n".join(table(told)))


if __name__ == "__main__":
    main()
