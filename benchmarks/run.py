"""`make bench`: gymlab and its peers on the same work in one run, interleaved; medians and spread.

Peers live in a venv of their own (.venv-peers). Writes benchmarks/results/speed.json and docs/speed.md.
Quick look: python benchmarks/run.py --repeats 1 --only CartPole
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import page
import yardstick
from measure import PEER_PACKAGES, ROOT, help_seconds, peer, peers_python, script
from peers.zoo import ZOO

from gymlab.campaigns.bench.measure import Measured, bench_environ, measure_training
from gymlab.campaigns.bench.peer import PeerWork, measure_peer

RESULTS = ROOT / "benchmarks" / "results" / "speed.json"
PAGE = ROOT / "docs" / "speed.md"
CARTPOLE, LANDER, ATARI = 100_000, 98_304, 12_288  # env steps
SYNC = "eval.mode=sync"  # so that its seconds can be taken off
PARTS = ("overhead", "evaluation", "many", "growth")  # further measurements, each a script with its own results
Case = Callable[[], Measured]


def train(*arguments: str, cache: Path) -> Measured:
    return measure_training(arguments, cache)


def ours(cache: Path) -> dict[str, Case]:
    """Name -> one measurement of gymlab."""
    full = ("--full-budget", SYNC)

    warm_seeds, cold_seeds = itertools.count(), itertools.count()  # another one in every round, as for SB3

    def solved() -> Measured:
        return train("CartPole-v1:ppo", "eval.every=10k env_steps", "--seed", str(next(warm_seeds)), cache=cache)

    def cold() -> Measured:
        empty, seed = cache / "cold", str(next(cold_seeds))
        shutil.rmtree(empty, ignore_errors=True)
        return train("CartPole-v1:ppo", "eval.every=10k env_steps", "--seed", seed, cache=empty)

    found: dict[str, Case] = {
        "help": help_seconds,
        "CartPole-v1 / gymlab compiled": lambda: train("CartPole-v1:ppo", *full, cache=cache),
        "CartPole-v1 / gymlab host": lambda: train("CartPole-v1:ppo", "engine=gymnasium", *full, cache=cache),
        "LunarLander-v3 / gymlab host": lambda: train(
            "LunarLander-v3:ppo", "--budget", str(LANDER), *full, cache=cache
        ),
        "CartPole-v1 solved / gymlab, warm cache": solved,
        "CartPole-v1 solved / gymlab, cold cache": cold,
        "Nature CNN update / gymlab": lambda: script("nature.py", cache=cache),
    }
    if find_spec("envpool") is not None:
        found["LunarLander-v3 / gymlab EnvPool"] = lambda: train(
            "LunarLander-v3:ppo", "engine=envpool", "--budget", str(LANDER), *full, cache=cache
        )
    for game in ("Pong", "Breakout"):
        arguments = (f"ALE/{game}-v5:rgb", "--budget", str(ATARI), "eval.every=100%", "eval.final_episodes=1")
        found[f"Atari {game} pictures / gymlab"] = lambda arguments=arguments: train(
            *arguments, "env.max_episode_steps=1000", *full, cache=cache
        )
    for name, (n_envs, n_steps, batch, epochs, total) in yardstick.SHAPES.items():
        sizes = [f"n_envs={n_envs}", f"n_steps={n_steps}", f"batch_size={batch}", f"epochs={epochs}"]
        few = ("eval.every=50%", "checkpoints.every=25%")
        found[f"CartPole {name} / gymlab compiled"] = lambda sizes=sizes, total=total, few=few: train(
            "CartPole-v1:ppo", *sizes, "--budget", str(total), *few, *full, cache=cache
        )
        shape = tuple(map(str, yardstick.SHAPES[name]))
        found[f"CartPole {name} / bare sketch"] = lambda shape=shape: script("yardstick.py", *shape, cache=cache)
    return found


def peers(python: Path | None) -> dict[str, Case]:
    """The same work by others."""
    if python is None:
        return {}
    seeds, again = itertools.count(), itertools.count()

    def ppo(env: str, steps: int, **other: Any) -> Case:
        n_envs, settings = ZOO[env]
        work = PeerWork(env, n_envs, steps, settings, pictures=env.startswith("ALE/"), **other)
        return lambda: measure_peer(python, work)

    return {
        "CartPole-v1 / SB3": ppo("CartPole-v1", CARTPOLE),
        "CartPole-v1 / SBX": ppo("CartPole-v1", CARTPOLE, peer="sbx"),
        "CartPole-v1 solved / SB3": lambda: peer(python, "solve", str(next(seeds)), "both"),
        "CartPole-v1 solved / SB3, greedy episodes only": lambda: peer(python, "solve", str(next(again))),
        "LunarLander-v3 / SB3": ppo("LunarLander-v3", LANDER),
        "LunarLander-v3 / SB3, processes": ppo("LunarLander-v3", LANDER, processes=True),
        "Nature CNN update / PyTorch, eager": lambda: peer(python, "nature"),
        "Atari Pong pictures / SB3": ppo("ALE/Pong-v5", ATARI // 4),
        "Atari Breakout pictures / SB3": ppo("ALE/Breakout-v5", ATARI // 4),
    }


def in_order(found: dict[str, Case]) -> dict[str, Case]:
    """What is compared stands side by side."""
    return dict(sorted(found.items(), key=lambda item: item[0].split(" / ")[0]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--page", action="store_true", help="write docs/speed.md from the results there are")
    options = parser.parse_args()
    cache = ROOT / ".cache" / "bench"
    if not options.page:
        measure_all(cache, options.repeats, options.only)
    PAGE.write_text(page.page(json.loads(RESULTS.read_text())))
    print(f"written: {PAGE.relative_to(ROOT)}")


def measure_all(cache: Path, repeats: int, only: str) -> None:
    """Measure the cases whose name contains `only`, and keep what other runs measured of the rest."""
    found = in_order(ours(cache) | peers(peers_python()))
    todo = {name: run for name, run in found.items() if only in name}
    measured: dict[str, list[Measured]] = {name: [] for name in todo}
    for repeat in range(repeats + 1):  # the first round warms caches and is not counted
        for name, run in todo.items():
            result = run()
            if repeat:
                measured[name].append(result)
            told = ", ".join(f"{key} {value:,.2f}" for key, value in result.items())
            print(f"[{repeat}/{repeats}] {name}: {told}", flush=True)
    kept = json.loads(RESULTS.read_text())["measured"] if only and RESULTS.is_file() else {}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"facts": facts(repeats), "measured": kept | measured}, indent=1) + "\n")
    for part in PARTS if not only else ():
        path = ROOT / "benchmarks" / f"{part}.py"
        if path.is_file():
            subprocess.run([sys.executable, path], env=bench_environ(cache), check=True)


def facts(repeats: int) -> dict[str, object]:
    return {
        "repeats": repeats,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "machine": platform.machine(),
        "versions": {name: metadata.version(name) for name in ("gymlab", "jax", "gymnasium", "numpy")}
        | dict(text.split("==") for text in PEER_PACKAGES if "==" in text),
    }


if __name__ == "__main__":
    main()
