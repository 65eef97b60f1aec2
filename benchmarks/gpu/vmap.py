"""One vmapped program for several seeds against one run by itself: CartPole-v1, 64 envs x 128 steps by default.

Programs alone, in turns, without run folders; then how far a member is from its solo run after 5 updates, and whether
the training returns of all members agree with those of solo runs. Writes vmap.json:
python benchmarks/gpu/vmap.py --out DIR
"""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gymlab.core.cooperative_lock import hold_lock
from gymlab.core.statistics import estimate
from gymlab.recipes.resolve import resolve
from gymlab.session.build import Parts, build
from gymlab.session.compile_cache import CompileCache
from gymlab.training.named_tensors import to_tensors
from gymlab.training.state import TrainState
from gymlab.training.trainer_vmapped import MemberTrainer, VmappedRuns

STEPS_TOGETHER = 10  # updates of one call


class Runs:
    """Runs that share compiled code, each by itself or all in one program."""

    def __init__(self, shape: list[str], members: int) -> None:
        recipe, kept = resolve("CartPole-v1:ppo", shape, budget="100M").recipe, CompileCache()
        self.parts: list[Parts] = [build(recipe, seed, compile_cache=kept) for seed in range(members)]
        self.steps = recipe.n_envs * recipe.n_steps
        self.turn = threading.Lock()
        self.group = VmappedRuns(members, self.turn)
        self.trainers = [
            self.group.member_trainer(i, parts.program, parts.histogram_schedule) for i, parts in enumerate(self.parts)
        ]

    def start(self, member: int) -> TrainState:
        return self.parts[member].program.start(member)

    def train(self, program: Any, member: int, state: TrainState, updates: int, first: int = 0) -> tuple[Any, float]:
        """The state some updates later, and the mean training return at the end."""
        hyperparameters, last = self.parts[member].plan.hyperparameters, {}
        for begin in range(first, first + updates, STEPS_TOGETHER):
            count = min(STEPS_TOGETHER, first + updates - begin)
            hp = np.stack([hyperparameters(begin + i) for i in range(count)])
            state, rows = program.advance(state, begin, hp, np.inf)
            last = rows[-1]
        jax.block_until_ready(program.materialize(state))
        return state, last["roll/return_mean"]

    def together(self, states: list[TrainState], updates: int, first: int = 0) -> list[tuple[Any, float]]:
        """The same for all members at once, a thread each."""
        found: dict[int, tuple[Any, float]] = {}

        def member(index: int, trainer: MemberTrainer) -> None:
            with hold_lock(self.turn):
                found[index] = self.train(trainer, index, states[index], updates, first)

        threads = [threading.Thread(target=member, args=pair) for pair in enumerate(self.trainers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [found[i] for i in range(len(states))]


def speed(runs: Runs, updates: int, repeats: int) -> dict[str, Any]:
    """Env steps per second of one run and of all, in turns; the first turn compiles."""
    alone, all_states, taken = runs.start(0), [runs.start(i) for i in range(len(runs.trainers))], []
    for repeat in range(repeats + 1):
        began = time.perf_counter()
        alone, _ = runs.train(runs.parts[0].program, 0, alone, updates, repeat * updates)
        between = time.perf_counter()
        all_states = [state for state, _ in runs.together(all_states, updates, repeat * updates)]
        taken.append((between - began, time.perf_counter() - between))
        print(
            f"[{repeat}/{repeats}] solo {taken[-1][0]:.2f} s, {len(runs.trainers)} together {taken[-1][1]:.2f} s",
            flush=True,
        )
    steps = runs.steps * updates
    solo = [steps / seconds for seconds, _ in taken[1:]]
    many = [steps * len(runs.trainers) / seconds for _, seconds in taken[1:]]
    return {
        "solo_steps_per_second": statistics.median(solo),
        "vmapped_steps_per_second": statistics.median(many),
        "ratio": statistics.median(m / s for m, s in zip(many, solo, strict=True)),
        "first_turn_seconds": {"solo": taken[0][0], "vmapped": taken[0][1]},
        "solo": solo,
        "vmapped": many,
    }


def distance(runs: Runs, updates: int = 5) -> float:
    """The largest difference of a parameter from the solo run's, over all members."""
    members = range(len(runs.trainers))
    ours = runs.together([runs.start(i) for i in members], updates)
    worst = 0.0
    for i in members:
        alone, _ = runs.train(runs.parts[i].program, i, runs.start(i), updates)
        mine, theirs = (
            to_tensors(runs.parts[i].agent.policy(runs.trainers[i].materialize(state))) for state in (ours[i][0], alone)
        )
        worst = max(worst, *(float(np.abs(mine[name] - theirs[name]).max()) for name in theirs))
    return worst


def returns(runs: Runs, updates: int) -> dict[str, Any]:
    """Interquartile means of the last training returns, with 95 % intervals."""
    members = range(len(runs.trainers))
    many = [score for _, score in runs.together([runs.start(i) for i in members], updates)]
    solo = [runs.train(runs.parts[i].program, i, runs.start(i), updates)[1] for i in members]
    ours, theirs = estimate(many), estimate(solo)
    overlap = ours.low <= theirs.high and theirs.low <= ours.high
    return {"updates": updates, "vmapped": ours._asdict(), "solo": theirs._asdict(), "intervals_overlap": overlap}


def measure(repeats: int, members: int, shape: list[str], updates: int, learning: int) -> dict[str, Any]:
    runs = Runs(shape, members)
    return {
        "device": str(jax.devices()[0]),
        "kind": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "members": members,
        "shape": shape,
        "updates_per_turn": updates,
        **speed(runs, updates, repeats),
        "largest_difference_after_5_updates": distance(runs),
        "returns": returns(runs, learning),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--members", type=int, default=8)
    parser.add_argument("--updates", type=int, default=50)
    parser.add_argument("--learning", type=int, default=60, help="updates until returns are compared")
    parser.add_argument(
        "shape", nargs="*", default=["n_envs=64", "n_steps=128", "batch_size=1024", "epochs=4", "learning_rate=1e-3"]
    )
    options = parser.parse_args()
    found = measure(options.repeats, options.members, options.shape, options.updates, options.learning)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "vmap.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps({name: value for name, value in found.items() if name not in ("solo", "vmapped")}, indent=1))


if __name__ == "__main__":
    main()
