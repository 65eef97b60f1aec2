"""docs/speed.md, from what was measured."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import evaluation
import growth
import many
import overhead
import yardstick

GPU = Path(__file__).with_name("gpu") / "results"
Repeats = list[dict[str, float]]
PEERS = ("SB3", "SB3, greedy episodes only")  # who else trains until solved


def page(found: dict[str, Any]) -> str:
    """The whole page."""
    facts, measured = found["facts"], found["measured"]
    fewest = min(map(len, measured.values()))
    lines = [
        "# Speed",
        "",
        "Written by `make bench`: what is compared was measured in one run, interleaved: same env, hyperparameters "
        "(RL-Zoo's), budget; "
        f"medians of {fewest} or more, lowest and highest in brackets. gymlab runs with statistics, recording, "
        "the event stream and checkpoints on; evaluation is a column of its own and is not in the speed.",
        "",
        f"Machine: {facts['cores']} cores, {facts['machine']}. Versions: "
        + ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
        + ".",
        "",
        *speeds(measured),
        *solved(measured),
        *sketched(measured),
        *pictures(measured),
        *start_up(measured),
    ]
    for part in (overhead, evaluation, many, growth):
        if part.RESULTS.is_file():
            lines += part.table(json.loads(part.RESULTS.read_text()))
    return "\n".join([*lines, *further()])


def further() -> list[str]:
    """Sections that other measurements wrote as Markdown beside their results."""
    folders = (GPU.parent.parent / "results", GPU)
    return [text for folder in folders for path in sorted(folder.glob("*.md")) for text in [path.read_text(), ""]]


def speeds(measured: dict[str, Repeats]) -> list[str]:
    rows = [name for name in measured if name.split(" / ")[0] in ("CartPole-v1", "LunarLander-v3")]
    if not rows:
        return []
    lines = [
        "| env | system | env steps/s | × SB3 | whole process, s | of it evaluation, s | peak MB |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for name in rows:
        env, system = name.split(" / ")
        best = max(
            (middle(measured[n], "steps_per_second") for n in measured if n.startswith(f"{env} / SB3")), default=0
        )
        ratio = f"{middle(measured[name], 'steps_per_second') / best:.1f}" if best else "-"
        lines.append(
            f"| {env} | {system} | {spread(measured[name], 'steps_per_second')} | {ratio} | "
            f"{number(measured[name], 'whole_process_seconds', '.1f')} | "
            f"{number(measured[name], 'evaluation_seconds', '.1f')} | {number(measured[name], 'peak_mb', '.0f')} |"
        )
    return [*lines, "", "× SB3 is against the faster of its vec envs.", ""]


def solved(measured: dict[str, Repeats]) -> list[str]:
    rows = {name.split(" / ")[1]: repeats for name, repeats in measured.items() if " solved / " in name}
    if not rows:
        return []
    bases = [middle(rows[name], "whole_process_seconds") for name in PEERS if name in rows]
    lines = [
        "## From process start to solved",
        "",
        "CartPole-v1 until 20 greedy episodes of 500 are confirmed by 100 more, evaluated every 10,000 env steps on "
        f"both sides, in {min(map(len, rows.values()))} rounds with a seed each: how soon a seed learns differs more "
        "than anything else here. gymlab plays as many sampled episodes each time; so does SB3, "
        "but for the last row, where it plays half of gymlab's episodes. gymlab's periodic evaluations "
        "are compiled, its confirming ones are played on the Gymnasium env (docs/evaluation.md).",
        "",
        "| system | seconds | " + "".join(f"of {name} | " for name in PEERS if name in rows) + "env steps |",
        "|---|---:|" + "---:|" * len(bases) + "---:|",
    ]
    for system, repeats in rows.items():
        seconds = middle(repeats, "whole_process_seconds")
        shares = "".join(f"{seconds / base:.2f} | " for base in bases)
        steps = spread(repeats, "env_steps")
        lines.append(f"| {system} | {spread(repeats, 'whole_process_seconds', '.1f')} | {shares}{steps} |")
    return [*lines, ""]


def sketched(measured: dict[str, Repeats]) -> list[str]:
    lines = []
    for shape, (*_, epochs, _) in yardstick.SHAPES.items():
        mine, bare = (measured.get(f"CartPole {shape} / {name}") for name in ("gymlab compiled", "bare sketch"))
        if not mine or not bare:
            continue
        speed, limit = middle(mine, "steps_per_second"), middle(bare, "steps_per_second")
        share = speed * yardstick.work_per_step(epochs) / middle(bare, "matmul_rate")
        lines.append(
            f"| {shape.replace('x', ' × ')} | {speed:,.0f} | {limit:,.0f} | {speed / limit:.2f} | {share:.0%} |"
        )
    if not lines:
        return []
    head = [
        "## Against a bare sketch",
        "",
        "The same PPO on CartPole with nothing but the arithmetic (benchmarks/sketch), and the share of NumPy's "
        "float32 matrix-product rate (512 × 512) that gymlab's own matrix products reach, measured in the same run.",
        "",
        "| envs × steps | gymlab, env steps/s | sketch, env steps/s | ratio | of the matmul rate |",
        "|---|---:|---:|---:|---:|",
    ]
    return [*head, *lines, ""]


def pictures(measured: dict[str, Repeats]) -> list[str]:
    rows = []
    for name, unit in (
        ("Nature CNN update", "samples"), ("Atari Pong pictures", "steps"), ("Atari Breakout pictures", "steps"),
    ):  # fmt: skip
        found = {system.split(" / ")[1]: r for system, r in measured.items() if system.startswith(f"{name} / ")}
        theirs = next((r for system, r in found.items() if system != "gymlab"), None)
        if "gymlab" in found and theirs:
            key = f"{unit}_per_second"
            ratio = middle(found["gymlab"], key) / middle(theirs, key)
            what = "samples/s" if unit == "samples" else "env steps/s (4 frames each)"
            rows.append(f"| {name} | {what} | {spread(found['gymlab'], key)} | {spread(theirs, key)} | {ratio:.2f} |")
    if not rows:
        return []
    head = ["## Pictures", "", "| work | unit | gymlab | peer | ratio |", "|---|---|---:|---:|---:|"]
    about = "The peer is eager PyTorch with all cores for the update, SB3 with its Atari wrappers for the games."
    return [*head, *rows, "", about, ""]


def start_up(measured: dict[str, Repeats]) -> list[str]:
    run = measured.get("CartPole-v1 solved / gymlab, warm cache")
    lines = []
    if "help" in measured:
        lines.append(f"- `gymlab --help`: {number(measured['help'], 'seconds', '.2f')} s")
    if run:
        lines += [
            f"- `gymlab train CartPole-v1:ppo` to its first finished update, warm cache: "
            f"{number(run, 'first_update_seconds', '.1f')} s",
            f"- from its last evaluation to the prompt: {number(run, 'exit_seconds', '.2f')} s",
            f"- its peak memory: {number(run, 'peak_mb', '.0f')} MB",
        ]
    return ["## Starting and ending", "", *lines, ""] if lines else []


def middle(repeats: Repeats, key: str) -> float:
    return statistics.median(repeat[key] for repeat in repeats)


def number(repeats: Repeats, key: str, form: str) -> str:
    return f"{middle(repeats, key):{form}}" if key in repeats[0] else "-"


def spread(repeats: Repeats, key: str, form: str = ",.0f") -> str:
    values = [repeat[key] for repeat in repeats]
    return f"{middle(repeats, key):{form}} [{min(values):{form}}, {max(values):{form}}]"
