"""docs/results.md, the page of a benchmark table, and its learning curves: made from plan and records alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gymlab.campaigns.benchmark_table.record import RunRecord
from gymlab.campaigns.benchmark_table.table import HEAD, BenchmarkResult, format_cells
from gymlab.campaigns.reference_scores import Reference, published_scores, references
from gymlab.core.format import format_count
from gymlab.core.statistics import iqm
from gymlab.reports.plots_png import COLOURS, as_png, figure_class
from gymlab.reports.sections import table
from gymlab.runs import files

PAGE = Path("docs/results.md")
PICTURES = Path("docs/images/results")
_CURVE_POINTS = 100
_ABOUT = """\
<!-- Written by `gymlab results show --write` from results/: edit the plan, not this page. -->

# Results

What the recipes reach, and the proof of it. `gymlab results run` makes all of it again (it resumes where it was
interrupted), `gymlab results run RECIPE` one row, `gymlab results show --write` this page.

How a number comes about:

- Each seed is one training run, to the end of its budget where its command says `--full-budget`. Its **best
  checkpoint** is chosen by the run's own evaluations; that one policy is then scored, and nothing else is reported.
- It is scored on the real Gymnasium env, greedy and sampled, 100 episodes each unless said, with **fresh episodes**:
  their seed is drawn from [2³¹, 2³²) by the training seed alone, while all evaluations that choose or stop draw theirs
  below 2³¹. Rows with the same seeds meet the same episodes.
- Where the env is a transition table the greedy policy's **exact** expected return takes the place of the greedy
  score: over all starts, within the time limit, without sampling noise.
- *score* is the interquartile mean over seeds with a 95 % bootstrap interval in brackets (5,000 resamples of seeds;
  with five seeds or fewer such intervals are somewhat too narrow). *solved* is the share of seeds that reach the env's
  own threshold; *to threshold* the median env steps to the first evaluation that did, over the seeds that did.
- *time* is a run's wall-clock time as it happened, beside whatever else the machine did: [speed](speed.md) is where
  speed is measured.
- A row is *reached* when its score is at least its mark, *below* when not,
  *stale* when the recipe, or where it is evaluated, has changed since.
"""
_RUN_HEAD = (
    "seed",
    "greedy",
    "sampled",
    "exact",
    "checkpoint",
    "env steps",
    "to threshold",
    "seconds",
    "scored with",
    "commit",
)


def format_page(results: Sequence[BenchmarkResult]) -> str:
    """The page as Markdown."""
    rows = []
    for result in results:
        cells = (_link(result), *format_cells(result)[1:])
        rows.append((*cells, "; ".join(map(str, row_references(result)[:3])) or "-"))
    parts = [_ABOUT, "\n".join(table((*HEAD, "others"), rows))]
    parts += [_section(result) for result in results if result.records]
    used = {ref.system: references().sources[ref.system] for result in results for ref in row_references(result)}
    parts += ["## Sources", "\n".join(f"- **{name}**: {text}." for name, text in sorted(used.items()))]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def row_references(result: BenchmarkResult) -> list[Reference]:
    """Scores that other systems published on the same env; by default with the same algorithm."""
    env = result.row.recipe.partition(":")[0]
    if result.row.references is not None:
        return [ref for ref in published_scores(env) if f"{ref.system} {ref.algorithm}" in result.row.references]
    return published_scores(env, _algorithm(result))


def _algorithm(result: BenchmarkResult) -> str:
    from gymlab.recipes.schema import algorithm_names

    variant = result.row.recipe.rpartition(":")[2]
    if variant in algorithm_names():
        return variant
    blocks = {key.partition(".")[0] for record in result.records for key in record.settings}
    return next((name for name in algorithm_names() if name in blocks), "ppo")


def _link(result: BenchmarkResult) -> str:
    """The title, linked to its section if there is one."""
    title = result.row.title
    anchor = "".join(letter for letter in title.lower().replace(" ", "-") if letter.isalnum() or letter in "-_")
    return f"[{title}](#{anchor})" if result.records else title


def _section(result: BenchmarkResult) -> str:
    row = result.row
    first = result.records[0]
    parts = [f"## {row.title}", *([row.note] if row.note else [])]
    parts.append(f"![learning curves]({(PICTURES / f'{row.slug}.png').relative_to(PAGE.parent).as_posix()})")
    parts.append("\n".join(table(_RUN_HEAD, [_run_cells(each) for each in sorted(result.records, key=_seed)])))
    for seed, changed in result.stale.items():
        parts.append(f"Seed {seed} is stale, set since: {', '.join(changed[:5])}.")
    others = row_references(result)
    if others:
        parts.append("Others: " + "; ".join(map(str, others)) + ".")
    versions = ", ".join(f"{name} {version}" for name, version in first.versions.items())
    parts.append(
        f"Made by `{first.command.replace(f'--seed {first.seed}', '--seed N')}`, scored by "
        f"`gymlab eval RUN/best --episodes {first.greedy.n} --seed M`, M under *scored with*; {versions}, "
        f"{first.cores or '?'} core{'s' * (first.cores != 1)}, {first.device or '?'}."
    )
    return "\n\n".join(parts)


def _seed(record: RunRecord) -> int:
    return record.seed


def _run_cells(record: RunRecord) -> tuple[str, ...]:
    """The cells of a run, in the order of _RUN_HEAD."""
    return (
        str(record.seed),
        f"{record.greedy.mean:.4g} ± {record.greedy.std:.3g}",
        f"{record.sampled.mean:.4g} ± {record.sampled.std:.3g}",
        "-" if record.exact is None else f"{record.exact:.5g}",
        record.checkpoint,
        str(record.env_steps),
        "-" if record.steps_to_threshold is None else str(record.steps_to_threshold),
        f"{record.seconds:.0f}",
        str(record.evaluation_seed),
        f"`{record.commit}`" if record.commit else "-",
    )


def write_page(results: Sequence[BenchmarkResult], root: Path) -> list[Path]:
    """Write the page and its pictures below a repository's root, and delete pictures of rows that no longer exist."""
    folder = root / PICTURES
    folder.mkdir(parents=True, exist_ok=True)
    written = [root / PAGE]
    for result in results:
        if result.records:
            target = folder / f"{result.row.slug}.png"
            files.write_bytes(target, draw_learning_curves(result.records, result.row.title, result.row.mark))
            written.append(target)
    for old in folder.glob("*.png"):
        if old not in written:
            old.unlink()
    files.write_text(root / PAGE, format_page(results))
    return written


def iqm_curve(records: Sequence[RunRecord]) -> tuple[np.ndarray, np.ndarray]:
    """env_steps and interquartile mean over seeds of the evaluation curves; a shorter run keeps its last value."""
    curves = [np.array(record.curve, float) for record in records if record.curve]
    if not curves:
        return np.empty(0), np.empty(0)
    grid = np.linspace(max(curve[0, 0] for curve in curves), max(curve[-1, 0] for curve in curves), _CURVE_POINTS)
    return grid, iqm(np.stack([np.interp(grid, curve[:, 0], curve[:, 1]) for curve in curves], axis=-1))


def draw_learning_curves(records: Sequence[RunRecord], title: str, mark: float | None) -> bytes:
    """A small PNG of a row: each seed thin, their interquartile mean thick."""
    figure = figure_class()(figsize=(6, 3), dpi=80, layout="constrained", facecolor="white")
    from matplotlib.ticker import FuncFormatter

    axes = figure.subplots()
    for record in records:
        if record.curve:
            axes.plot(*zip(*record.curve, strict=True), color=COLOURS[0], linewidth=0.8, alpha=0.35)
    axes.plot(*iqm_curve(records), color=COLOURS[0], linewidth=2)
    if mark is not None:
        axes.axhline(mark, color="#6E7781", linewidth=1, linestyle=(0, (4, 3)))
    axes.set_title(title, loc="left", fontsize=10, parse_math=False)
    axes.set_xlabel("env_steps", fontsize=8)
    axes.tick_params(labelsize=8, length=0)
    axes.grid(True, color="#E6E8EB", linewidth=0.8)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: format_count(x)))
    for spine in axes.spines.values():
        spine.set_visible(False)
    return as_png(figure)
