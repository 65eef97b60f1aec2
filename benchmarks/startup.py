"""What each start-up measure buys: whole commands with one measure off, in turn with commands that have them all.

A round trains once with every measure and once without each of them, with an empty compilation cache and again with
the filled one; a ratio is that of the two commands of one round. Results are kept in benchmarks/results/startup.json as
they come, so an interrupted campaign continues. A first look:

    python benchmarks/startup.py --rounds 1 --out /tmp/look.json
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "benchmarks" / "results" / "startup.json"
WORK = ["CartPole-v1:ppo", "--budget", "10240", "--full-budget", "-q", "eval.final_episodes=20"]
STATES = ("cold", "warm")
FIGURES = ("wall", "cpu", "rss")
ALL = "all"


def _optimization_level() -> None:
    os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=3"


def _small_programs_cached() -> None:
    from gymlab.session import jax_setup

    jax_setup.cache_small_programs = lambda: None  # type: ignore[attr-defined]


def _updates_compiled_ahead() -> None:
    from gymlab.training.trainer_compiled import CompiledTrainer

    CompiledTrainer._compile_ahead = lambda *_: None  # type: ignore[method-assign]


def _evaluation_compiled_ahead() -> None:
    from gymlab.session import evaluation_features

    done = threading.Thread()
    done.start()
    evaluation_features.compile_evaluation = lambda *_: done  # type: ignore[attr-defined]


def _garbage_collection_deferred() -> None:
    for name in ("disable", "freeze", "set_threshold"):
        setattr(gc, name, lambda *_: None)


def _keys_made_on_the_host() -> None:
    import jax

    from gymlab.core import jax_keys

    jax_keys.run_key = jax.random.key
    jax_keys.named_key = lambda seed, name, *indices: jax_keys.stream_key(jax.random.key(seed), name, *indices)


# What switches a measure off.
MEASURES: dict[str, Callable[[], None]] = {
    "LLVM -O1": _optimization_level,
    "small programs cached": _small_programs_cached,
    "updates compiled ahead": _updates_compiled_ahead,
    "evaluation compiled ahead": _evaluation_compiled_ahead,
    "garbage collection deferred": _garbage_collection_deferred,
    "keys made on the host": _keys_made_on_the_host,
}


def command(measure: str, cache: str, folder: str) -> dict[str, float]:
    """One command; its seconds, CPU seconds and peak memory in MB."""
    environ = {**os.environ, "GYMLAB_VIDEO": "off", "GYMLAB_RUNS": f"{folder}/runs", "GYMLAB_CACHE": cache}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    arguments = [sys.executable, __file__, "--without", measure, "train", *WORK, "--json"]
    done = subprocess.run(arguments, env=environ, cwd=folder, check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    rss = float(done.stderr.rsplit("peak ", 1)[1])
    return {"wall": seconds, "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, "rss": rss}


def child(measure: str, arguments: list[str]) -> None:
    """Run `gymlab` without a measure."""
    if measure != ALL:
        MEASURES[measure]()
    sys.argv = ["gymlab", *arguments]
    import atexit

    atexit.register(
        lambda: print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.1f}", file=sys.stderr)
    )
    gc.set_threshold(10_000, 20, 100)
    from gymlab.cli.main import main

    main()


def summary(rounds: list[dict[str, Any]]) -> list[str]:
    """A Markdown table: medians of the ratios of seconds and CPU seconds without a measure to those with all."""
    head = "".join(f" {state} {figure} |" for state in STATES for figure in FIGURES)
    lines = [f"| without | pairs |{head}", f"|---|---:|{'---:|' * len(STATES) * len(FIGURES)}"]
    for name in MEASURES:
        cells = []
        for state in STATES:
            for figure in FIGURES:
                ratios = sorted(r[name][state][figure] / r[ALL][state][figure] for r in rounds)
                cells.append(f" {statistics.median(ratios):.2f} |")
        lines.append(f"| {name} | {len(rounds)} |{''.join(cells)}")
    return lines


def main() -> None:
    if sys.argv[1:2] == ["--without"]:
        child(sys.argv[2], sys.argv[3:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    rounds: list[dict[str, Any]] = json.loads(options.out.read_text())["rounds"] if options.out.is_file() else []
    while len(rounds) < options.rounds:
        names = [ALL, *MEASURES]
        turn = len(rounds) % len(names)
        measured: dict[str, Any] = {"load": os.getloadavg()[0]}
        for name in names[turn:] + names[:turn]:
            with tempfile.TemporaryDirectory() as folder:
                measured[name] = {state: command(name, f"{folder}/cache", folder) for state in STATES}
        rounds.append(measured)
        options.out.write_text(json.dumps({"rounds": rounds}, indent=1) + "\n")
    print("\n".join(summary(rounds)))


if __name__ == "__main__":
    main()
