"""`gymlab eval`: scores of policies with confidence intervals, for several checkpoints and runs."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from gymlab.cli.options import print_json

if TYPE_CHECKING:
    from gymlab.runs.paths import RunPaths
    from gymlab.session.evaluate_checkpoints import CheckpointScore, EvaluationProtocol
    from gymlab.training.evaluation import Abandon, Way

SEED = 7  # training evaluates on 0, so this is a test on other episodes
_MOST_SEEDS = 1000
_QUIET_SECONDS = 2.0
_HEADS = ("run", "checkpoint", "", "mean ± std", "95 % of mean", "IQM", "95 % of IQM", "n", "steps", "cut")


def evaluate(
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN ...]", help="RUN[/CHECKPOINT] each, default @last; the best checkpoint of each."),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Of every run: first, best, last, all or numbers, by commas."),
    ] = None,
    episodes: Annotated[int, typer.Option(help="Episodes of each way of acting, from each seed.", min=1)] = 100,
    seed: Annotated[int | None, typer.Option(help=f"Evaluation seed of the episodes; default {SEED}.", min=0)] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="LIST", help="Several evaluation seeds instead: 0..4, or 1,5,9.")
    ] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="Only the likeliest actions; default: both ways.")] = False,
    sampled: Annotated[bool, typer.Option("--sampled", help="Only actions drawn from the policy.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, with every episode's seed.")] = False,
) -> None:
    """Score policies on the real Gymnasium env: mean, interquartile mean and 95 % bootstrap intervals.

    Example: gymlab eval @last --checkpoint first,best --seeds 0..4
    """
    from gymlab.session.evaluate_checkpoints import EvaluationProtocol, evaluate_checkpoints
    from gymlab.training.evaluation import WAYS

    asked: dict[Way, bool] = {"greedy": greedy, "sampled": sampled}
    ways = tuple(way for way in WAYS if asked[way]) or WAYS
    exam = EvaluationProtocol(episodes, _seeds(seed, seeds), ways)
    chosen = _chosen(runs or ["@last"], checkpoint)
    found: list[CheckpointScore] = []
    with _progress(sum(len(which) for _, which in chosen), exam) as watch:
        for paths, which in chosen:
            found += evaluate_checkpoints(paths, which, exam, watch)
    if json:
        scores = [scored.as_json() for scored in found]
        print_json(scores[0] if len(scores) == 1 else {"evaluations": scores})
    else:
        typer.echo("\n".join(_page(found, exam)))


def _seeds(seed: int | None, text: str | None) -> tuple[int, ...]:
    from gymlab.core.errors import UserError

    if text is None:
        return (SEED if seed is None else seed,)
    if seed is not None:
        raise UserError(f"--seed {seed} and --seeds {text}: give one of them")
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,15})(?:\.\.(\d{1,15}))?\s*", part)
        if match is None or (match[2] is not None and int(match[2]) < int(match[1])):
            raise UserError(f"--seeds {text}: '{part.strip()}' is no seed and no range: write 0..4, or 1,5,9")
        first = int(match[1])
        last = int(match[2] or match[1])
        if last - first >= _MOST_SEEDS or len(found) >= _MOST_SEEDS:
            raise UserError(f"--seeds {text}: more than {_MOST_SEEDS} seeds; more --episodes do as well")
        found += range(first, last + 1)
    return tuple(dict.fromkeys(found))


def _chosen(runs: Sequence[str], checkpoints: str | None) -> list[tuple[RunPaths, list[str]]]:
    """Every run with its checkpoints, each named once."""
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.runs.selection import select_checkpoint, select_checkpoints, select_run

    chosen: dict[str, tuple[RunPaths, list[str]]] = {}
    for text in runs:
        if checkpoints is None:
            paths, which = select_checkpoint(text, runs_folder(), default="best")
            names = [which]
        else:
            paths = select_run(text, runs_folder())
            names = select_checkpoints(paths, checkpoints)
        known = chosen.setdefault(str(paths.root.resolve()), (paths, []))[1]
        known += [name for name in names if name not in known]
    return list(chosen.values())


@contextmanager
def _progress(checkpoints: int, exam: EvaluationProtocol) -> Iterator[Callable[[str, int], Abandon]]:
    """A status line on a terminal, from two seconds on."""
    began = shown = time.monotonic()
    total = checkpoints * len(exam.seeds)
    number = 0
    drawn = False

    def watch(what: str, seed: int) -> Abandon:
        nonlocal number
        number = number + 1
        steps = 0

        def step() -> bool:
            nonlocal steps, shown, drawn
            now = time.monotonic()
            steps = steps + 1
            if now - began > _QUIET_SECONDS and now - shown > 0.5 and sys.stderr.isatty():
                line = f"{number} of {total}: {what}, seed {seed}, step {steps}"
                print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
                shown = now
                drawn = True
            return False

        return step

    try:
        yield watch
    finally:
        if drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _page(found: Sequence[CheckpointScore], exam: EvaluationProtocol) -> list[str]:
    from gymlab.runs.logs import strip_escapes

    rows = [row for scored in found for row in _rows(scored)]
    widths = [max(map(len, column)) for column in zip(_HEADS, *rows, strict=True)]
    lines = [_line(_HEADS, widths), *(_line(row, widths) for row in rows)]
    if any(scored.exact is not None for scored in found):
        lines.append("exact: the greedy policy's expected return, from the env's transition table")
    if any(of.truncated for scored in found for of in scored.scores.values()):
        lines.append("cut: episodes that the time limit ended")
    lines.append("episodes: played on the Gymnasium env")
    seeds = ", ".join(map(str, exam.seeds[:8])) + (" ..." if len(exam.seeds) > 8 else "")
    lines.append(f"seeds: derived from {seeds}, disjoint from all training seeds; --json lists every episode's")
    recipes = list(dict.fromkeys(scored.recipe.partition(":")[0] for scored in found))
    if len(recipes) > 1:
        lines.append(f"note: returns of {' and '.join(recipes)} do not compare")
    ids = list(dict.fromkeys(scored.run_id for scored in found))
    following = f"runs compare {' '.join(ids)}" if len(ids) > 1 else f"play {ids[0]}"
    lines.append(f"next: gymlab {following}")
    return [strip_escapes(line) for line in lines]


def _rows(scored: CheckpointScore) -> Iterator[tuple[str, ...]]:
    name = f"{scored.checkpoint} ({', '.join(scored.roles)})" if scored.roles else scored.checkpoint
    for way, of in scored.scores.items():
        yield (
            scored.run_id,
            name,
            way,
            f"{of.mean.value:.2f} ± {of.std:.2f}",
            f"[{of.mean.low:.2f}, {of.mean.high:.2f}]",
            f"{of.iqm.value:.2f}",
            f"[{of.iqm.low:.2f}, {of.iqm.high:.2f}]",
            str(of.n),
            f"{of.length:.0f}",
            str(of.truncated or ""),
        )
    if scored.exact is not None:
        yield (scored.run_id, name, "exact", f"{scored.exact:.4f}", *[""] * 6)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
