"""gymlab's compiled program on a GPU against the bare sketch, in turns: `python benchmarks/gpu/cartpole.py --out DIR`.

Statistics are on; rows and distributions come back to the host after every call, as in a run.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

SKETCH = Path(__file__).resolve().parent.parent / "sketch" / "compiled_cartpole.py"
SHAPES = {"2048 x 128": (2048, 128, 65_536, 4), "65536 x 32": (65_536, 32, 524_288, 4)}
SECONDS, REPEATS = 4.0, 3


class Ours:
    """A run's program, kept warm between turns."""

    def __init__(self, n_envs: int, n_steps: int, batch: int, epochs: int) -> None:
        from gymlab.recipes.resolve import resolve
        from gymlab.session.build import build

        sizes = [f"n_envs={n_envs}", f"n_steps={n_steps}", f"batch_size={batch}", f"epochs={epochs}"]
        self._parts = build(resolve("CartPole-v1:ppo", [*sizes, "budget=100G"]).recipe, 0)
        self._state, self._update, self._per_update = self._parts.program.start(0), 0, n_envs * n_steps
        began = time.perf_counter()
        self._advance(1)
        self.first_call = time.perf_counter() - began

    def turn(self) -> float:
        """env steps/s over some seconds."""
        began, done = time.perf_counter(), 0
        while (took := time.perf_counter() - began) < SECONDS:
            self._advance(10)  # as many as the sketch does in a call
            done += 10 * self._per_update
        return done / took

    def _advance(self, count: int) -> None:
        hp = np.stack([self._parts.plan.hyperparameters(self._update)] * count)
        self._state, rows = self._parts.program.advance(self._state, self._update, hp, float("inf"))
        assert len(rows) == count
        self._update += count


def sketch(n_envs: int, n_steps: int, batch: int, epochs: int, total: float) -> float:
    numbers = [n_envs, n_steps, batch, epochs, int(total)]
    done = subprocess.run([sys.executable, SKETCH, *map(str, numbers)], capture_output=True, text=True, check=True)
    return float(re.match(r"(\d+) env steps/s", done.stdout)[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    import jax

    found: dict[str, Any] = {"device": jax.devices()[0].device_kind, "jax": jax.__version__, "shapes": {}}
    for name, shape in SHAPES.items():
        program, ours, bare = Ours(*shape), [], []
        for _ in range(REPEATS):
            ours.append(program.turn())
            bare.append(sketch(*shape, total=SECONDS * ours[-1]))
            print(f"{name}: gymlab {ours[-1]:,.0f}, sketch {bare[-1]:,.0f} env steps/s", flush=True)
        ratio = statistics.median(ours) / statistics.median(bare)
        found["shapes"][name] = {"gymlab": ours, "sketch": bare, "ratio": ratio, "first_call_s": program.first_call}
    out.mkdir(parents=True, exist_ok=True)
    (out / "cartpole.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found["shapes"], indent=1))


if __name__ == "__main__":
    main()
