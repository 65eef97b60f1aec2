"""What the machine can do: a bare sketch of the same work, and the rate of a plain matrix product.

`python benchmarks/yardstick.py N_ENVS N_STEPS MINIBATCH EPOCHS STEPS` prints one JSON line.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

SKETCH = Path(__file__).with_name("sketch") / "compiled_cartpole.py"
SHAPES = {  # envs, steps, minibatch, epochs, env steps
    "8x32": (8, 32, 256, 20, 200_000),
    "64x128": (64, 128, 1024, 4, 2_000_000),
    "1024x32": (1024, 32, 8192, 4, 4_000_000),
}


def matmul_rate(size: int = 512, repeats: int = 60) -> float:
    """Floating-point operations per second of NumPy's float32 matrix product."""
    a, b = np.ones((size, size), np.float32), np.ones((size, size), np.float32)
    a @ b
    began = time.perf_counter()
    for _ in range(repeats):
        a @ b
    return repeats * 2 * size**3 / (time.perf_counter() - began)


def work_per_step(epochs: int, hidden: int = 64) -> float:
    """Operations per env step in matrix products: acting, the values of both ends of a step, and the gradients."""
    policy, value = (2 * (4 * hidden + hidden * hidden + hidden * out) for out in (2, 1))
    return policy + 2 * value + 3 * epochs * (policy + value)


def main() -> None:
    done = subprocess.run([sys.executable, SKETCH, *sys.argv[1:]], capture_output=True, text=True, check=True)
    speed = float(re.match(r"(\d+) env steps/s", done.stdout)[1])
    print(json.dumps({"steps_per_second": speed, "matmul_rate": matmul_rate()}))


if __name__ == "__main__":
    main()
