"""gymlab's PPO and Stable-Baselines3's on the same work: RL-Zoo's settings, the same budget, seeds and evaluation.

Both are scored alike: the policy at the end of training, greedy, on the same 100 episode seeds of the real env, which
neither saw before. Results are kept in benchmarks/results/side_by_side.json as they come, so that an interrupted
campaign goes on. Needs .venv-peers (made by benchmarks/run.py). A first look:

    python benchmarks/side_by_side.py --seeds 1 --budget 20000 --out /tmp/look.json
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

import numpy as np

from gymlab.campaigns.benchmark_table.seeded_recipe import fresh_seed
from gymlab.campaigns.comparison import MIN_SEEDS
from gymlab.core.rng import episode_seed
from gymlab.core.statistics import difference, estimate, probability_of_improvement
from gymlab.runs import files

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "benchmarks" / "results" / "side_by_side.json"
BUDGETS = {"Acrobot-v1": 1_000_000, "LunarLander-v3": 1_000_000}
EPISODES = 100
SYSTEMS = ("gymlab", "sb3")
Scored = dict[str, Any]  # mean, std, n, seconds, env_steps


def ours(env: str, budget: int, seed: int) -> Scored:
    """One training run of ours and its last policy's score."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "GYMLAB_RUNS": folder, "GYMLAB_VIDEO": "off"}

        def gymlab(*words: str) -> Any:
            done = subprocess.run(
                [sys.executable, "-m", "gymlab", *words, "--json"],
                env=environment, capture_output=True, text=True, check=True,
            )  # fmt: skip
            return json.loads(done.stdout.splitlines()[-1])

        wanted = ["--budget", str(budget), "--seed", str(seed), "--full-budget", "--run-id", "side"]
        trained = gymlab("train", f"{env}:ppo", *wanted)
        scored = gymlab("eval", "side/last", "--episodes", str(EPISODES), "--seed", str(fresh_seed(seed)))
    greedy = scored["eval"]["greedy"]
    return {**greedy, "seconds": trained["seconds"], "env_steps": trained["env_steps"]}


def theirs(env: str, budget: int, seed: int, python: Path) -> Scored:
    """The same of SB3's; the episode seeds are those of our evaluation, one env for each episode."""
    seeds = [episode_seed(fresh_seed(seed), index, 0, evaluation=True) for index in range(EPISODES)]
    done = subprocess.run(
        [python, ROOT / "benchmarks" / "peers" / "learn.py", env, str(budget), str(seed)],
        input=json.dumps(seeds), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(done.stderr)
    found = json.loads(done.stdout.splitlines()[-1])
    returns = np.array(found.pop("returns"))
    return {"mean": float(returns.mean()), "std": float(returns.std()), "n": len(returns), **found}


def read(path: Path) -> dict[str, Scored]:
    return json.loads(path.read_text()) if path.is_file() else {}


def summary(known: dict[str, Scored]) -> list[str]:
    """A Markdown table and one sentence for each env."""
    lines = ["| env | system | seeds | greedy IQM [95 %] | seconds a run |", "|---|---|---:|---:|---:|"]
    verdicts = []
    for env in BUDGETS:
        found = {system: [v for k, v in known.items() if k.startswith(f"{env}/{system}/")] for system in SYSTEMS}
        if not all(found.values()):
            continue
        scores = {system: [run["mean"] for run in runs] for system, runs in found.items()}
        for system, runs in found.items():
            seconds = np.median([run["seconds"] for run in runs])
            lines.append(f"| {env} | {system} | {len(runs)} | {estimate(scores[system])} | {seconds:.0f} |")
        if min(map(len, scores.values())) < MIN_SEEDS:
            verdicts.append(f"{env}: too few seeds to say anything")
            continue
        mine, other = estimate(scores["gymlab"]), estimate(scores["sb3"])
        below = mine.value < other.low
        verdicts.append(
            f"{env}: our IQM is {'below' if below else 'not below'} SB3's interval; ours less theirs "
            f"{difference(scores['gymlab'], scores['sb3'])}, one of ours beats one of theirs with probability "
            f"{probability_of_improvement(scores['gymlab'], scores['sb3']):.2f}"
        )
    return [*lines, "", *verdicts]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", nargs="+", default=list(BUDGETS), choices=list(BUDGETS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--budget", type=int, help="env steps, default: RL-Zoo's")
    parser.add_argument("--peers-python", type=Path, default=ROOT / ".venv-peers" / "bin" / "python")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    if not given.peers_python.exists():
        sys.exit(f"there is no {given.peers_python}: benchmarks/run.py makes it, or name one with --peers-python")
    known = read(given.out)
    wanted = [(env, system, seed) for env in given.envs for seed in range(given.seeds) for system in SYSTEMS]
    for place, (env, system, seed) in enumerate(wanted):
        budget = given.budget or BUDGETS[env]
        key = f"{env}/{system}/{seed}/{budget}"
        if key in known:
            continue
        began = time.perf_counter()
        scored = ours(env, budget, seed) if system == "gymlab" else theirs(env, budget, seed, given.peers_python)
        known = {**read(given.out), key: scored}
        files.write_json(given.out, known)
        spent = time.perf_counter() - began
        print(f"{place + 1} of {len(wanted)}: {key}: {scored['mean']:.4g}, {spent:.0f} s", flush=True)
    asked = {f"{env}/{system}/{seed}/{given.budget or BUDGETS[env]}" for env, system, seed in wanted}
    print("\n".join(summary({key: scored for key, scored in known.items() if key in asked})))


if __name__ == "__main__":
    main()
