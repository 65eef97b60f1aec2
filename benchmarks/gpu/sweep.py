"""64 learning rates x 4 seeds of CartPole-v1 in one vmapped program, against one process after the other.

Whole commands as a user gives them, run folders and evaluation included. Some of the processes are really run, spread
over the learning rates; the time of all is theirs times their number. Writes sweep.json:
python benchmarks/gpu/sweep.py --out DIR
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from gymlab.core.statistics import estimate

COMMON = [
    "--quiet",
    "video.clips=[]",
    "eval.every=100%",
    "checkpoints.every=50%",
    "eval.mode=sync",
    "eval.final_episodes=20",
    "--full-budget",
]


def train(folder: Path, *words: str) -> float:
    """The seconds of a whole command."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "gymlab", "train", "CartPole-v1:ppo", *words, *COMMON]
    places = {"GYMLAB_CACHE": str(folder / "cache"), "GYMLAB_RUNS": str(folder / "runs")}
    subprocess.run(command, cwd=folder, check=True, env={**os.environ, **places})
    return time.perf_counter() - began


def scores(folder: Path) -> dict[tuple[float, int], float]:
    """(learning rate, seed) -> the final greedy return of the run."""
    found = {}
    for path in folder.glob("runs/*/report.json"):
        report = json.loads(path.read_text())
        rate = report["settings"]["changed"]["ppo.learning_rate"]["value"]
        found[float(rate), int(report["seed"])] = report["result"]["eval"]["greedy"]["mean"]
    return found


def measure(rates: list[float], seeds: int, alone: int, device: str) -> dict[str, Any]:
    pairs = [(rate, seed) for rate in rates for seed in range(seeds)]
    some = [pairs[i] for i in np.linspace(0, len(pairs) - 1, alone).astype(int)]
    cold = 0.0
    with tempfile.TemporaryDirectory() as folder:
        many, solo = Path(folder) / "many", Path(folder) / "solo"
        many.mkdir()
        solo.mkdir()
        told = ",".join(f"{rate:.6g}" for rate in rates)
        for first in (True, False):  # which fills the compilation cache
            shutil.rmtree(many / "runs", ignore_errors=True)
            together = train(many, "--seeds", str(seeds), "--vmap", f"ppo.learning_rate={told}", "--device", device)
            cold = together if first else cold
            print(f"{len(pairs)} together, {'cold' if first else 'warm'}: {together:.1f} s", flush=True)
        taken = []
        for rate, seed in some:
            words = (f"ppo.learning_rate={rate:.6g}", "--seed", str(seed), "--device", device)
            taken.append(train(solo, *words))
            print(f"alone {len(taken)} of {alone}: {taken[-1]:.1f} s", flush=True)
        ours, theirs = scores(many), scores(solo)
    assert len(ours) == len(pairs), f"{len(ours)} of {len(pairs)} runs finished"
    differences = [ours[pair] - theirs[pair] for pair in theirs]
    each = statistics.median(taken[1:])  # as above
    return {
        "members": len(pairs),
        "cold_seconds": cold,
        "together_seconds": together,
        "alone_seconds": taken,
        "ratio": each * len(pairs) / together,
        "differences": differences,
        "difference": estimate(differences)._asdict(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rates", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--alone", type=int, default=12)
    parser.add_argument("--device", default="gpu")
    options = parser.parse_args()
    rates = [float(f"{rate:.6g}") for rate in np.geomspace(1e-5, 1e-2, options.rates)]
    found = measure(rates, options.seeds, options.alone, options.device)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "sweep.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
