"""docs/results.md: written from the plan and the records alone, so that it can be checked against them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gymlab.campaigns.benchmark_table.learning_curves import draw
from gymlab.campaigns.benchmark_table.table import HEAD, Line, cells
from gymlab.campaigns.references import Reference, data, scores_of
from gymlab.reports.sections import table
from gymlab.runs import files

PAGE = Path("docs/results.md")
PICTURES = Path("docs/images/results")
_ABOUT = """\
<!-- Written by `gymlab results show --write` from results/: edit the plan, not this page. -->

# Results

What the recipes reach, and the proof of it. `gymlab results run` makes all of it again (it goes on where it was
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
- A row is *reached* when its score is at least its mark, *below* when not, *stale* when the recipe has changed since.
"""


def page(lines: Sequence[Line]) -> str:
    """The whole page as Markdown."""
    rows = [tuple(_linked(line) if place == 0 else cell for place, cell in enumerate(cells(line))) for line in lines]
    head = (*HEAD, "others")
    with_others = [(*row, "; ".join(map(str, others(line)[:3])) or "-") for row, line in zip(rows, lines, strict=True)]
    parts = [_ABOUT, "\n".join(table(head, with_others)), *(_section(line) for line in lines if line.records)]
    used = {ref.system: data().sources[ref.system] for line in lines for ref in others(line)}
    parts += ["## Sources", "\n".join(f"- **{name}**: {text}." for name, text in sorted(used.items()))]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def others(line: Line) -> list[Reference]:
    """What others published on the same env, by default with the same algorithm."""
    env = line.row.recipe.partition(":")[0]
    algorithm = _algorithm(line)
    if line.row.references is not None:
        return [ref for ref in scores_of(env) if f"{ref.system} {ref.algorithm}" in line.row.references]
    return scores_of(env, algorithm)


def _algorithm(line: Line) -> str:
    from gymlab.recipes.schema import algorithm_names

    variant = line.row.recipe.rpartition(":")[2]
    if variant in algorithm_names():
        return variant
    blocks = {key.partition(".")[0] for record in line.records for key in record.settings}
    return next((name for name in algorithm_names() if name in blocks), "ppo")


def _linked(line: Line) -> str:
    anchor = "".join(
        letter for letter in line.row.title.lower().replace(" ", "-") if letter.isalnum() or letter in "-_"
    )
    return f"[{line.row.title}](#{anchor})" if line.records else line.row.title


def _section(line: Line) -> str:
    row = line.row
    records = line.records
    first = records[0]
    told = [f"## {row.title}", *([row.note] if row.note else [])]
    told.append(f"![learning curves]({(PICTURES / f'{row.slug}.png').relative_to(PAGE.parent).as_posix()})")
    rows = [
        (
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
        for record in sorted(records, key=lambda record: record.seed)
    ]
    head = (
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
    told.append("\n".join(table(head, rows)))
    for seed, changed in line.stale.items():
        told.append(f"Seed {seed} is stale, set since: {', '.join(changed[:5])}.")
    found = others(line)
    if found:
        told.append("Others: " + "; ".join(map(str, found)) + ".")
    versions = ", ".join(f"{name} {version}" for name, version in first.versions.items())
    told.append(
        f"Made by `{first.command.replace(f'--seed {first.seed}', '--seed N')}`, scored by "
        f"`gymlab eval RUN/best --episodes {first.greedy.n} --seed M`, M under *scored with*; {versions}, "
        f"{first.cores or '?'} core{'s' * (first.cores != 1)}, {first.device or '?'}."
    )
    return "\n\n".join(told)


def write_page(lines: Sequence[Line], root: Path) -> list[Path]:
    """The page and its pictures below a repository's root; pictures of rows that are gone are removed."""
    folder = root / PICTURES
    folder.mkdir(parents=True, exist_ok=True)
    written = [root / PAGE]
    for line in lines:
        if line.records:
            target = folder / f"{line.row.slug}.png"
            files.write_bytes(target, draw(line.records, line.row.title, line.row.mark))
            written.append(target)
    for old in folder.glob("*.png"):
        if old not in written:
            old.unlink()
    files.write_text(root / PAGE, page(lines))
    return written
