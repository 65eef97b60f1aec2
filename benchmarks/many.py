"""Many runs at once on a CPU: 8 seeds of CartPole-v1 by processes against one run by itself, in turns.

Both are whole commands: start-up, statistics, checkpoints and the summary are in the time. Measured twice: as users run
it, with evaluation and films, which one run by itself has made by other processes and so on the other core; and with
evaluation reduced to one episode and no films, which is how two cores train. Written to benchmarks/results/many.json.
Quick look: python benchmarks/many.py --repeats 1 --seeds 4
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "many.json"
RECIPE = "CartPole-v1:ppo"
HARDLY = ("eval.every=100%", "eval.episodes=1", "eval.final_episodes=1", "video.clips=[]")


def command(*arguments: str) -> tuple[dict[str, Any], float]:
    """What a training command ends with, and the seconds it took from start to prompt."""
    with tempfile.TemporaryDirectory() as folder:
        environ = {**os.environ, "GYMLAB_RUNS": folder, "JAX_PLATFORMS": "cpu"}
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "gymlab", "train", RECIPE, "--full-budget", "--json", *arguments],
            cwd=folder, env=environ, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return json.loads(done.stdout.splitlines()[-1]), time.perf_counter() - began


def solo(seed: int, how: tuple[str, ...]) -> dict[str, float]:
    told, wall = command(*how, "--seed", str(seed))
    return {"steps_per_second": told["env_steps"] / wall, "training": told["env_steps"] / told["seconds"], "wall": wall}


def group(seeds: int, how: tuple[str, ...]) -> dict[str, float]:
    told, wall = command(*how, "--seeds", str(seeds))
    steps = sum(member["env_steps"] for member in told["members"])
    spent = sum(member["seconds"] for member in told["members"])
    return {"steps_per_second": steps / wall, "training": steps / spent, "wall": wall}


def measure(repeats: int, seeds: int = 8, how: tuple[str, ...] = ()) -> dict[str, Any]:
    """Medians over the repeats. `ratio`: aggregate env steps/s of the group over the solo run's.

    `training_ratio` leaves start-up out: a member's own speed times the processes, over the solo run's.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    rounds = []
    for repeat in range(repeats + 1):  # the first round fills the compilation cache and is not counted
        alone, together = solo(repeat, how), group(seeds, how)
        told = {
            "solo": alone,
            "group": together,
            "ratio": together["steps_per_second"] / alone["steps_per_second"],
            "training_ratio": together["training"] * min(cores, seeds) / alone["training"],
        }
        print(f"[{repeat}/{repeats}] {json.dumps(told)}", flush=True)
        rounds += [told] if repeat else []
    return {
        "seeds": seeds,
        "processes": min(cores, seeds),
        "ratio": statistics.median(told["ratio"] for told in rounds),
        "training_ratio": statistics.median(told["training_ratio"] for told in rounds),
        "solo_steps_per_second": statistics.median(told["solo"]["steps_per_second"] for told in rounds),
        "group_steps_per_second": statistics.median(told["group"]["steps_per_second"] for told in rounds),
        "rounds": rounds,
    }


def table(found: dict[str, Any]) -> list[str]:
    """For docs/speed.md."""
    lines = ["## Many seeds", "", f"`train CartPole-v1:ppo --seeds {found['as_run']['seeds']}` by processes:", ""]
    lines += ["| | one run | all together | ratio | ratio, start-up left out |", "| --- | ---: | ---: | ---: | ---: |"]
    for name, told in (
        ("as users run it", found["as_run"]),
        ("one episode of evaluation, no films", found["training"]),
    ):
        lines.append(
            f"| {name} | {told['solo_steps_per_second']:,.0f} | {told['group_steps_per_second']:,.0f} "
            f"| {told['ratio']:.2f} | {told['training_ratio']:.2f} |"
        )
    told = (
        "Env steps/s of whole commands. One run by itself has its evaluation and films made by other processes, which "
        "is what the second core does meanwhile; without them two cores train nearly twice as much."
    )
    return [*lines, "", told, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=8)
    options = parser.parse_args()
    found = {
        "as_run": measure(options.repeats, options.seeds),
        "training": measure(options.repeats, options.seeds, HARDLY),
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print("\n".join(table(found)))


if __name__ == "__main__":
    main()
