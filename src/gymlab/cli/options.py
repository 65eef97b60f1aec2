"""Options that several commands share, and what they mean: output mode, seeds, numbers of steps."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from gymlab.core.errors import UserError

MAX_RUNS = 10_000  # of one command
TIMED_OUT = 124  # exit code, the same as that of timeout(1)

RecipeArgument = Annotated[str, typer.Argument(metavar="RECIPE", help="ENV[:VARIANT]")]
OverridesArgument = Annotated[list[str] | None, typer.Argument(metavar="[key=value ...]", help="Overrides.")]
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Id, unique beginning, path, @last, @best or @best:ENV.")
]

Sets = Annotated[list[str] | None, typer.Option("--set", metavar="key=value", help="An override.")]
Imports = Annotated[list[str] | None, typer.Option("--import", metavar="MODULE", help="Import first.")]
EnvImports = Annotated[list[str] | None, typer.Option("--import", help="Module that registers envs.")]
RunSeed = Annotated[int, typer.Option(help="Seed of the run.", min=0)]
DrawSeed = Annotated[int, typer.Option(min=0, help="Of what is drawn.")]
RunBudget = Annotated[str | None, typer.Option(help="Of each run, e.g. 50k; default: the recipe's.")]
Jobs = Annotated[int, typer.Option("--jobs", min=1, help="Trainings side by side.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Runs at once; default: as many as there are cores.")]
Dry = Annotated[bool, typer.Option("--dry", help="Only say what would be trained and how long it takes.")]
Timeout = Annotated[float | None, typer.Option(metavar="S", min=0, help="Seconds to wait at most.")]
TableSeed = Annotated[int | None, typer.Option(help="Seed of the table's episode; default: eval.seed.", min=0)]
TableSampled = Annotated[bool, typer.Option("--sampled", help="The table of the policy as it explores.")]

Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JsonAtEnd = Annotated[bool, typer.Option("--json", help="End with one JSON object on stdout.")]
JsonOnStdout = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, progress on stderr.")]

Seeds = Annotated[
    str | None,
    typer.Option("--seeds", metavar="K|A..B|A,B", help="One run per seed, as many at once as there are cores."),
]
Vmap = Annotated[
    list[str] | None,
    typer.Option(
        "--vmap",
        metavar="[KEY=A,B]",
        help="With --seeds: one compiled program for all, also over scheduled hyperparameters.",
    ),
]
FullKeySets = Annotated[
    list[str] | None, typer.Option("--set", help="key=value with the full key, e.g. ppo.gamma=0.99.")
]
FullBudget = Annotated[bool, typer.Option("--full-budget", help="Do not stop when solved.")]
KeepFullBudget = Annotated[
    bool | None,
    typer.Option("--full-budget/--no-full-budget", help="Do not stop when solved; default: as the run was begun."),
]
Wandb = Annotated[
    str | None, typer.Option("--wandb", metavar="[=PROJECT]", help="Copy to Weights & Biases, e.g. --wandb=my-project.")
]
TensorBoard = Annotated[bool, typer.Option("--tensorboard", help="Copy to TensorBoard files in the run's folder.")]
Detach = Annotated[bool, typer.Option("--detach", help="Train in the background; return when training has begun.")]
Background = Annotated[int | None, typer.Option("--in-background", hidden=True)]
Wait = Annotated[
    bool | None,
    typer.Option("--wait/--no-wait", help="Wait for the films; default: only where stdout is not a terminal."),
]
Queued = Annotated[bool, typer.Option("--queue", help="Put it into the queue and return; see `gymlab queue`.")]
QueueKey = Annotated[
    str | None, typer.Option("--key", metavar="TEXT", help="With --queue: asked twice with one key, it is done once.")
]
Jsonl = Annotated[bool, typer.Option("--jsonl", help="Stream events as JSON lines on stdout.")]

OutputMode = Literal["people", "quiet", "json", "jsonl"]


@dataclass(frozen=True)
class LaunchOptions:
    """How `train` and `resume` run: what they print, whether in the background, and the trackers that get a copy."""

    output: OutputMode
    detach: bool = False
    wandb: str | None = None
    tensorboard: bool = False
    wait: bool | None = None  # for the films; None: unless at a terminal

    @property
    def json(self) -> bool:
        return self.output in ("json", "jsonl")


@dataclass(frozen=True)
class NewRunOptions:
    """What `train` sets about a new run, or about every run of a new group, beside its recipe."""

    seed: int
    run_id: str | None
    group: str | None
    tags: tuple[str, ...]
    note: str | None
    full_budget: bool
    init_from: str | None


@dataclass(frozen=True)
class ResumeOptions:
    """What `resume`, or `train --resume`, changes about a run."""

    overrides: tuple[str, ...]
    sets: tuple[str, ...]
    budget: str | None
    full_budget: bool | None  # None: as the run was begun
    run_id: str | None  # of the fork, if an earlier checkpoint is resumed
    no_optimizer: bool
    reschedule: bool

    @property
    def changes(self) -> tuple[str, ...]:
        return (*self.overrides, *self.sets)


def output_mode(*, quiet: bool, json: bool, jsonl: bool = False) -> OutputMode:
    """The output that --quiet, --json and --jsonl choose together."""
    return "jsonl" if jsonl else "json" if json else "quiet" if quiet else "people"


def print_json(value: Any) -> None:
    """Print JSON on one line; NaN and infinity become null."""
    from gymlab.runs.files import strict_json

    typer.echo(strict_json(value))


def parse_seeds(text: str, first: int = 0) -> list[int]:
    """`8` is that many seeds starting at `first`, `0..7` a range with both ends, `1,5,9` a list."""
    words = [word.strip() for word in text.split(",")]
    seeds: list[int] = []
    for word in words:
        match = re.fullmatch(r"(\d{1,9})(?:\.\.(\d{1,9}))?", word)
        if match is None or (match[2] and int(match[2]) < int(match[1])):
            raise UserError(f"--seeds={text[:80]!r}: how many (8), from..to (0..7) or a list (1,5,9)")
        if match[2]:
            seeds += range(int(match[1]), min(int(match[2]), int(match[1]) + MAX_RUNS) + 1)
        elif len(words) > 1:
            seeds.append(int(match[1]))
        else:
            seeds += range(first, first + min(int(match[1]), MAX_RUNS + 1))
    seeds = list(dict.fromkeys(seeds))
    if not 1 <= len(seeds) <= MAX_RUNS:
        raise UserError(f"--seeds={text[:80]!r}: at least 1 and at most {MAX_RUNS} runs")
    return seeds


def parse_env_steps(option: str, text: str | None, *, least: int, hint: str = "") -> int | None:
    """The whole number of env steps in `option`, e.g. 500k or 5M."""
    from gymlab.core.clock import parse_number

    if text is None:
        return None
    steps = parse_number(text)
    if not isinstance(steps, int) or steps < least:
        raise UserError(f"{option} {text}: a number of env steps such as 500k or 5M{hint}")
    return steps
