"""Recipes with deliberate faults (benchmarks/faulty_recipes/), repaired by following `gymlab diagnose` alone.

Each is trained, then `diagnose --apply` and `train` alternate until it is solved, three times at most. Writes
benchmarks/results/faulty_recipes.json and the table in docs/alerts.md.
Quick look: python benchmarks/faulty_recipes.py --only rate-high
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from gymlab.diagnosis.unusual_settings import ranges_table

ROOT = Path(__file__).resolve().parent.parent
RECIPES = ROOT / "benchmarks" / "faulty_recipes"
RESULTS = ROOT / "benchmarks" / "results" / "faulty_recipes.json"
PAGE = ROOT / "docs" / "alerts.md"
ROUNDS = 3


def gymlab(folder: Path, *words: str) -> dict[str, Any]:
    """A command's last line, as JSON."""
    command = [sys.executable, "-m", "gymlab", *words, "--json"]
    ours = {name: value for name, value in os.environ.items() if name not in ("GYMLAB_RUNS", "GYMLAB_CONFIG")}
    done = subprocess.run(command, cwd=folder, env=ours, capture_output=True, text=True, check=False)
    if not done.stdout.strip() or done.returncode == 2:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def train(folder: Path, reference: str, seed: int) -> dict[str, Any]:
    result = gymlab(folder, "train", reference, "--seed", str(seed), "-q")
    score = None if result["eval"] is None else result["eval"]["greedy"]["mean"]
    return {
        "run_id": result["run_id"],
        "score": score,
        "solved": result["solved"] is True,
        "env_steps": result["env_steps"],
    }


def cure(reference: str, seed: int, rounds: int = ROUNDS) -> dict[str, Any]:
    """Train a faulty recipe and follow the first advice until it is solved."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(RECIPES, folder / "recipes")
        run = train(folder, reference, seed)
        story: dict[str, Any] = {"recipe": reference, "before": run, "rounds": []}
        while not run["solved"] and len(story["rounds"]) < rounds:
            advice = gymlab(folder, "diagnose", run["run_id"], "--apply")["applied"]
            run = train(folder, f"{advice['path']}:{advice['variant']}", seed)
            story["rounds"].append({"finding": advice["finding"], "changes": advice["changes"], **run})
        return story


def references(only: list[str]) -> list[str]:
    """`ENV:VARIANT` of all faulty recipes, or of those named."""
    found = [
        f"{path.stem}:{variant}"
        for path in sorted(RECIPES.glob("*.yaml"))
        for variant in re.findall(r"^  ([\w-]+):(?: #.*)?$", path.read_text().partition("variants:")[2], re.MULTILINE)
    ]
    return [name for name in found if not only or name.partition(":")[2] in only]


def table(stories: list[dict[str, Any]], seed: int) -> str:
    rows = [
        "| faulty recipe | score | what was found and followed | score after | solved |",
        "| --- | --- | --- | --- | --- |",
    ]
    for story in stories:
        steps = "; then ".join(
            f"`{step['finding']}`: "
            + ", ".join(f"`{key}` {_value(old)} → {_value(new)}" for key, old, new in step["changes"])
            for step in story["rounds"]
        )
        last = story["rounds"][-1] if story["rounds"] else story["before"]
        solved = f"yes, after {last['env_steps']} env_steps" if last["solved"] else "no"
        rows.append(f"| `{story['recipe']}` | {_score(story['sick'])} | {steps} | {_score(last)} | {solved} |")
    cured = sum(bool(story["rounds"]) and story["rounds"][-1]["solved"] for story in stories)
    total = f"{cured} of {len(stories)} solved within {ROUNDS} rounds, seed {seed}."
    return "\n".join([*rows, "", f"{total} A score is the greedy policy's mean return over 100 episodes.", ""])


def _score(run: dict[str, Any]) -> str:
    return "none" if run["score"] is None else f"{run['score']:.1f}"


def _value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def write(table: str) -> None:
    """The tables of the page."""
    page = PAGE.read_text()
    for name, text in (("faulty", table), ("ranges", "\n".join([*ranges_table(), ""]))):
        marks = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        page = marks.sub(lambda found, text=text: f"{found[1]}{text}{found[2]}", page)
    PAGE.write_text(page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="variants; nothing is written then")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="write the table of the results there are, and train none")
    options = parser.parse_args()
    if options.write:
        known = json.loads(RESULTS.read_text())
        stories, seed = known["stories"], known["seed"]
    else:
        stories, seed = [], options.seed
        for reference in references(options.only):
            stories.append(cure(reference, seed))
            print(json.dumps(stories[-1]), flush=True)
    text = table(stories, seed)
    print(text)
    if options.only:
        return
    RESULTS.write_text(json.dumps({"seed": seed, "stories": stories}, indent=1) + "\n")
    write(text)


if __name__ == "__main__":
    main()
