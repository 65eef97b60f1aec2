"""How an update's cost grows with each setting, and whether a long run slows down. Writes results/growth.json.

CartPole-v1:ppo, compiled, without evaluation: only the training program is timed, in one process.
"""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).with_name("results") / "growth.json"
PICTURE = Path(__file__).resolve().parent.parent / "docs" / "images" / "growth.png"
BASE = {"n_envs": 32, "n_steps": 64, "batch_size": 512, "epochs": 4, "policy.hidden": 64}
AXES: dict[str, list[int]] = {
    "n_envs": [8, 32, 128, 512],
    "n_steps": [16, 64, 256, 1024],
    "policy.hidden": [32, 64, 128, 256],
    "epochs": [1, 4, 16],
}
LONG = 20_000_000  # env steps


def program(settings: dict[str, int]) -> Any:
    from gymlab.recipes.resolve import resolve
    from gymlab.session.build import build

    width = settings["policy.hidden"]
    rest = [f"{name}={value}" for name, value in settings.items() if name != "policy.hidden"]
    return build(resolve("CartPole-v1:ppo", [*rest, f"policy.hidden=[{width},{width}]"]).recipe, 0)


def seconds_per_update(settings: dict[str, int], at_least: float = 1.0) -> float:
    """The median of five calls, each long enough to be timed."""
    parts = program(settings)
    state, hp, update = parts.program.start(0), parts.plan.hyperparameters(0), 0

    def call(count: int) -> float:
        nonlocal state, update
        began = time.perf_counter()
        state, _ = parts.program.advance(state, update, np.stack([hp] * count), float("inf"))
        update += count
        return (time.perf_counter() - began) / count

    call(1)
    count = int(np.clip(at_least / 5 / max(call(2), 1e-6), 1, parts.program.most))
    return statistics.median(call(count) for _ in range(5))


def drift() -> dict[str, float]:
    """env steps/s in the first and in the last tenth of a long run."""
    parts = program({**BASE, "n_envs": 64, "n_steps": 128, "batch_size": 1024})
    state, hp = parts.program.start(0), parts.plan.hyperparameters(0)
    steps = 64 * 128 * 64
    times = []
    for call in range(LONG // steps + 1):
        began = time.perf_counter()
        state, _ = parts.program.advance(state, call * 64, np.stack([hp] * 64), float("inf"))
        times.append(time.perf_counter() - began)
    times, tenth = times[1:], max(1, len(times) // 10)
    return {
        "env_steps": float(LONG),
        "first": steps / statistics.median(times[:tenth]),
        "last": steps / statistics.median(times[-tenth:]),
    }


def measure() -> dict[str, Any]:
    """Every size twice, in turns, and the quicker of the two: whatever else the machine does only makes it slower."""
    grown: dict[str, dict[str, float]] = {axis: {} for axis in AXES}
    for _ in range(2):
        for axis, values in AXES.items():
            for value in values:
                took = seconds_per_update({**BASE, axis: value})
                grown[axis][str(value)] = min(took, grown[axis].get(str(value), took))
                print(f"{axis}={value}: {took * 1e3:.2f} ms per update", flush=True)
    found = {"base": BASE, "seconds_per_update": grown, "drift": drift()}
    print(f"over {LONG} env steps: {found['drift']}", flush=True)
    return found


def picture(found: dict[str, Any]) -> None:
    """Cost against each setting, both logarithmic: a line no steeper than the grey one is not super-linear."""
    import matplotlib.pyplot as plt

    figure, panes = plt.subplots(1, len(AXES), figsize=(12, 3), sharey=True, layout="constrained")
    for pane, (axis, costs) in zip(panes, found["seconds_per_update"].items(), strict=True):
        x, y = np.array([float(value) for value in costs]), np.array(list(costs.values())) * 1e3
        pane.loglog(x, y, "o-", color="tab:blue")
        pane.loglog(x, y[-1] * x / x[-1], color="0.8", zorder=0)
        pane.set_xlabel(axis)
        pane.set_xticks(x, list(costs))
        pane.set_xticks([], minor=True)
        pane.grid(alpha=0.3)
    panes[0].set_ylabel("ms per update")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=80)


def table(found: dict[str, Any]) -> list[str]:
    """A section of docs/speed.md."""
    base = ", ".join(f"{name}={value}" for name, value in found["base"].items())
    drift = found["drift"]
    return [
        "## How cost grows",
        "",
        f"CartPole-v1:ppo, compiled, one setting changed at a time from {base}; the grey line is proportional cost.",
        "",
        "![ms per update against n_envs, n_steps, width and epochs](images/growth.png)",
        "",
        f"Over {drift['env_steps'] / 1e6:.0f} million env steps (64 × 128): {drift['first']:,.0f} env steps/s in the "
        f"first tenth, {drift['last']:,.0f} in the last.",
        "",
    ]


def main() -> None:
    found = measure()
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    picture(found)


if __name__ == "__main__":
    main()
