"""The figures and the sparklines of docs/reading-charts.md, from real runs: a healthy one and some that are faulty.

Trains for a few minutes; writes docs/images/*.png and the lines between the page's marks. The faulty recipes are those
of benchmarks/faulty_recipes/.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from gymlab.metrics.catalogue import metric, written
from gymlab.reports.plots_png import Panel, draw, drowned
from gymlab.runs.metrics_reader import Curve, CurveReader
from gymlab.terminal.plots import sparkline

ROOT = Path(__file__).resolve().parent.parent
PAGE, IMAGES = ROOT / "docs" / "reading-charts.md", ROOT / "docs" / "images"
HEALTHY = "healthy"
RUNS = {
    HEALTHY: "CartPole-v1:ppo",
    "rate-high": "CartPole-v1:rate-high",
    "rate-low": "CartPole-v1:rate-low",
    "entropy-high": "CartPole-v1:entropy-high",
    "reward-large": "CartPole-v1:reward-large",
}
LIMIT = 60_000  # bytes of a picture


class Figure(NamedTuple):
    """Metrics side by side, some runs in each; or the parts of one metric for each run."""

    name: str
    title: str
    metrics: tuple[str, ...]
    runs: tuple[str, ...]


FIGURES = (
    Figure("returns", "Returns", ("roll/return_mean", "eval/greedy_mean"), tuple(RUNS)),
    Figure("policy", "How far updates move the policy", ("opt/approx_kl", "opt/clip_fraction"), tuple(RUNS)[:3]),
    Figure("entropy", "How sure the policy is", ("opt/entropy", "roll/length_mean"), tuple(RUNS)[:4]),
    Figure(
        "value", "The value net", ("opt/explained_variance", "opt/value_loss"), (HEALTHY, "rate-high", "reward-large")
    ),
    Figure(
        "gradients", "Gradients before clipping, and what an update changes", ("opt/grad_norm", "opt/update_norm"),
        (HEALTHY, "rate-high", "rate-low", "reward-large"),
    ),
)  # fmt: skip
PARTS = ("policy_trunk", "policy_head", "value_trunk", "value_head")
LINES = (
    "roll/return_mean", "opt/approx_kl", "opt/clip_fraction", "opt/entropy", "opt/explained_variance", "opt/value_loss",
    "opt/grad_norm", "opt/update_norm",
)  # fmt: skip


def train(folder: Path, seed: int) -> dict[str, Path]:
    """Every run that is not in this folder yet."""
    shutil.copytree(ROOT / "benchmarks" / "faulty_recipes", folder / "recipes", dirs_exist_ok=True)
    ours = {name: value for name, value in os.environ.items() if name not in ("GYMLAB_RUNS", "GYMLAB_CONFIG")}
    for name, recipe in RUNS.items():
        if (folder / "runs" / name / "report.md").exists():
            continue
        words = ["train", recipe, "--run-id", name, "--full-budget", "--seed", str(seed), "-q"]
        subprocess.run([sys.executable, "-m", "gymlab", *words], cwd=folder, env=ours, check=True)
    return {name: folder / "runs" / name / "metrics.db" for name in RUNS}


def curves(stores: dict[str, Path], name: str) -> dict[str, Curve]:
    """A metric of all runs that have it."""
    found = {}
    for run, store in stores.items():
        with CurveReader(store) as reader:
            curve = reader.curves([name], points=200)[name]
        if len(curve):
            found[run] = curve
    return found


def picture(stores: dict[str, Path], figure: Figure) -> bytes:
    panels = []
    for name in figure.metrics:
        seen = {run: curve for run, curve in curves(stores, name).items() if run in figure.runs}
        goal = 475.0 if metric(name).bounds == "return" else None
        panels.append(Panel(name, list(seen.items()), goal, None, drowned([*seen.values()])))
    return small(draw(panels, figure.title, dpi=80))


def small(png: bytes) -> bytes:
    """The same picture with a palette: a third of the bytes."""
    target = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(
        target, "PNG", optimize=True
    )
    return target.getvalue()


def parts_picture(stores: dict[str, Path]) -> bytes:
    """The gradient norm by part of the network, healthy beside drowned by the value loss."""
    panels = []
    for run in (HEALTHY, "reward-large"):
        seen = {part: curves(stores, f"opt/grad_norm/{part}").get(run) for part in PARTS}
        lines = [(part, curve) for part, curve in seen.items() if curve is not None]
        panels.append(Panel(f"opt/grad_norm/* of the {run} run", lines, log=True))
    return small(draw(panels, "Gradients by part of the network", dpi=80))


def lines(stores: dict[str, Path]) -> str:
    """A row of sparklines for each run and metric."""
    told = ["```text"]
    for name in LINES:
        told.append(name)
        for run, curve in curves(stores, name).items():
            ends = f"{written(name, float(curve.y[0])):>10} → {written(name, curve.last):<10}"
            told.append(f"  {run:<13}{ends} {sparkline(_clipped(curve.y), 48)}")
    return "\n".join([*told, "```", ""])


def _clipped(values: np.ndarray) -> np.ndarray:
    """One spike would make a flat line of all else."""
    return np.clip(values, *np.percentile(values, [1, 99]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--into", type=Path, default=IMAGES, help="folder of the pictures")
    parser.add_argument("--keep", type=Path, help="folder in which runs are kept, and taken from")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        stores = train(options.keep or Path(name), options.seed)
        pictures = {figure.name: picture(stores, figure) for figure in FIGURES}
        pictures["gradient-parts"] = parts_picture(stores)
        told = lines(stores)
    options.into.mkdir(parents=True, exist_ok=True)
    for name, data in pictures.items():
        assert len(data) < LIMIT, f"{name}: {len(data)} bytes"
        (options.into / f"{name}.png").write_bytes(data)
    print(told)
    if options.into == IMAGES:
        marks = re.compile(r"(<!-- lines -->\n).*?(<!-- /lines -->)", re.DOTALL)
        PAGE.write_text(marks.sub(lambda found: f"{found[1]}{told}{found[2]}", PAGE.read_text()))


if __name__ == "__main__":
    main()
