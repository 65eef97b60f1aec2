"""Pong from pictures on a GPU: a real run, and where its time goes: `python benchmarks/gpu/pong.py --out DIR`.

The emulator alone and the policy alone are timed first, on the run's own engine and network.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

RECIPE = "ALE/Pong-v5:rgb-deterministic"
N_ENVS, N_STEPS = 64, 32  # twice the zoo's rollout: more envs, fewer steps of each
SIZES = [f"n_envs={N_ENVS}", f"n_steps={N_STEPS}", "batch_size=256", "device=gpu"]


def split(rounds: int = 200) -> dict[str, float]:
    """env steps/s of the emulator alone, of acting alone, and of both in a rollout; seconds of an update."""
    import jax

    from gymlab.recipes.resolve import resolve
    from gymlab.session.build import build

    parts = build(resolve(RECIPE, SIZES).recipe, 0)
    state = parts.program.start(0)
    hp = np.stack([parts.plan.hyperparameters(0)])
    rows: list[Any] = []
    for update in range(4):
        state, row = parts.program.advance(state, update, hp, float("inf"))
        rows = row
    engine = parts.program._collectors[0].engine  # what is timed is this run's own
    rng = np.random.default_rng(0)
    began = time.perf_counter()
    for _ in range(rounds):
        engine.step(rng.integers(0, 6, N_ENVS))
    emulator = rounds * N_ENVS / (time.perf_counter() - began)
    act, policy = jax.jit(parts.agent.act), parts.agent.policy(state)
    obs, key = np.asarray(state.groups[0].obs), jax.random.key(0)
    np.asarray(act(policy, obs, (), key, False).action)
    began = time.perf_counter()
    for _ in range(rounds):
        np.asarray(act(policy, obs, (), key, False).action)
    acting = rounds * N_ENVS / (time.perf_counter() - began)
    parts.program.close()
    collect, update_seconds = rows[0]["time/collect"], rows[0]["time/update"]
    per_update = N_ENVS * N_STEPS
    return {
        "emulator_steps_per_second": emulator,
        "acting_steps_per_second": acting,
        "collect_seconds": collect,
        "update_seconds": update_seconds,
        "steps_per_second": per_update / (collect + update_seconds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=int, default=400)
    parser.add_argument("--budget", default="2500000")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    found = split()
    print(json.dumps(found), flush=True)
    command = [
        sys.executable, "-m", "gymlab", "train", RECIPE, *SIZES, "--budget", options.budget, "--run-id", "pong",
        f"stop.seconds={options.seconds}", "eval.every=20%", "eval.episodes=4", "eval.final_episodes=20",
        "learning_rate=lin_5e-4", "video.clips=[]", "--jsonl",
    ]  # fmt: skip
    runs = Path("runs-gpu")
    with (options.out / "pong.jsonl").open("w") as log:
        subprocess.run(command, env={**os.environ, "GYMLAB_RUNS": str(runs)}, stdout=log, check=False)
    for name in ("report.md", "report.json", "metrics.sqlite"):
        if (runs / "pong" / name).is_file():
            shutil.copy(runs / "pong" / name, options.out / f"pong-{name}")
    (options.out / "pong.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
