"""A sweep by warm workers against the same runs one process after the other: learning rates x seeds of CartPole-v1.

The whole is 64 rates x 4 seeds; one after the other a sample of them is timed and the rest reckoned from it, since each
is a process of its own that knows nothing of the others. `equal` says whether the sample's runs are bit for bit those
of the sweep. With --vmap the sweep is one vmapped program (for a GPU). Written to benchmarks/results/sweep-*.json.
Quick look: python benchmarks/sweep.py --rates 4 --seeds 2 --sample 2
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
RECIPE = "CartPole-v1:ppo"


def command(runs: Path, *arguments: str) -> tuple[dict[str, Any], float]:
    """What a command ends with, and the seconds it took from start to prompt."""
    environ = {**os.environ, "GYMLAB_RUNS": str(runs), "GYMLAB_VIDEO": "off"}
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "gymlab", *arguments, "--json"],
        cwd=runs, env=environ, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1]), time.perf_counter() - began


def weights(run: Path) -> bytes:
    """The last policy, as it lies on the disk."""
    last = json.loads((run / "checkpoints" / "index.json").read_text())["last"]
    return (run / "checkpoints" / last / "policy.safetensors").read_bytes()


def measure(rates: int, seeds: int, sample: int, budget: str, *, vmap: bool, until_solved: bool) -> dict[str, Any]:
    space = f"ppo.learning_rate=log:1e-5..1e-2:{rates}"
    with tempfile.TemporaryDirectory() as folder:
        together, alone = Path(folder) / "sweep", Path(folder) / "solo"
        together.mkdir()
        alone.mkdir()
        command(alone, "train", RECIPE, "--budget", budget, "--full-budget", "-q")  # fills the compilation cache
        more = [*(["--vmap"] if vmap else []), *(["--until-solved"] if until_solved else [])]
        length = [] if until_solved else ["--full-budget"]
        told, sweep_seconds = command(
            together, "sweep", RECIPE, "--space", space, "--method", "grid", "--seeds", str(seeds), "--budget", budget,
            "--name", "bench", *more,
        )  # fmt: skip
        solo, equal = [], True
        for place in range(sample):
            trial, seed = (2 * place + 1) * rates // (2 * sample), place % seeds  # rates from the midst of each part
            row = told["rows"][trial]
            found, seconds = command(
                alone, "train", RECIPE, *row["overrides"], "eval.mode=sync", "video.clips=[]", "--budget", budget,
                *length, "--seed", str(seed), "-q",
            )  # fmt: skip
            solo.append(seconds)
            equal &= weights(together / row["runs"][seed]) == weights(Path(found["run_dir"]))
    one_by_one = rates * seeds * sum(solo) / len(solo)
    return {
        "recipe": RECIPE, "rates": rates, "seeds": seeds, "budget": budget,
        "until_solved": until_solved, "how": "vmap" if vmap else "processes",
        "sweep_seconds": sweep_seconds, "one_by_one_seconds": one_by_one, "sample": sample, "solo_seconds": solo,
        "ratio": one_by_one / sweep_seconds, "equal": equal,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--sample", type=int, default=8, help="runs timed one after the other")
    parser.add_argument("--budget", default="20k")
    parser.add_argument("--vmap", action="store_true")
    parser.add_argument("--until-solved", action="store_true", help="runs stop when solved, as `gymlab train` does")
    options = parser.parse_args()
    found = measure(**vars(options))
    RESULTS.mkdir(exist_ok=True)
    kind = f"{'-vmap' if options.vmap else ''}{'-until-solved' if options.until_solved else ''}"
    name = f"sweep-{options.budget}{kind}.json"
    (RESULTS / name).write_text(json.dumps(found, indent=1) + "\n")
    print(f"{found['rates']} x {found['seeds']} runs of {found['budget']}: {found['sweep_seconds']:.0f} s as a sweep")
    print(f"{found['one_by_one_seconds']:.0f} s one after the other: {found['ratio']:.1f} x; equal: {found['equal']}")


if __name__ == "__main__":
    main()
