"""`gymlab bench`: how fast a recipe trains on this machine, beside Stable-Baselines3 where that is installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gymlab.cli.options import JsonOnStdout, OverridesArgument, print_json
from gymlab.session.run_guard import guard_command

if TYPE_CHECKING:
    from gymlab.campaigns.bench.peer import PeerWork

PEER_HELP = "A Python that has stable-baselines3: it trains the same in turns."


def bench(
    recipe: Annotated[str, typer.Argument(metavar="[RECIPE]", help="ENV[:VARIANT]")] = "CartPole-v1:ppo",
    overrides: OverridesArgument = None,
    budget: Annotated[int, typer.Option(help="Env steps of each training.", min=1_000)] = 100_000,
    repeats: Annotated[int, typer.Option(help="Trainings of each that count; one more warms up.", min=1, max=50)] = 3,
    peer: Annotated[Path | None, typer.Option(help=PEER_HELP, exists=True, dir_okay=False)] = None,
    json: JsonOnStdout = False,
) -> None:
    """Train a recipe several times from outside and say how fast it was: medians, lowest and highest.

    Statistics, recording and checkpoints are on, films are off. The speed leaves out the first call and evaluations;
    what starting, evaluating and ending take has columns of its own. Nothing is kept.

    To compare: python -m venv peers && peers/bin/pip install stable-baselines3 'gymnasium[box2d]'

    Example: gymlab bench CartPole-v1:ppo --peer peers/bin/python
    """
    from rich.console import Console

    from gymlab.campaigns.bench import speed_table
    from gymlab.campaigns.bench.peer import same_work
    from gymlab.recipes.resolve import resolve

    with guard_command("before all was measured"):
        resolved = resolve(recipe, overrides or ())
        work = None if peer is None else same_work(resolved.recipe, budget)
        console = Console(stderr=json, markup=False, highlight=False, soft_wrap=True)
        words = [recipe, *(overrides or ()), "eval.mode=sync", "--budget", str(budget), "--full-budget"]
        with console.status("warming up") as status:
            measured = _in_turns(words, work, peer, repeats, status.update)
    if json:
        print_json({"recipe": resolved.recipe.name, "budget": budget, "measured": measured})
        return
    for line in speed_table.format_speeds(measured):
        console.print(line)
    mine, theirs = (speed_table.median_of(measured.get(name, ()), "steps_per_second") for name in ("gymlab", "SB3"))
    if mine and theirs:
        console.print(f"gymlab makes {mine / theirs:.1f} times as many env steps a second")
    console.print(f"next: gymlab tune-envs {recipe}" + ("" if peer else ", or --peer PYTHON to compare"))


def _in_turns(
    words: list[str], work: PeerWork | None, python: Path | None, repeats: int, report: Callable[[str], None]
) -> dict[str, list[dict[str, float]]]:
    """Measure each system once per turn, so that slow phases of the machine affect all; the first turn is a warm-up."""
    import tempfile

    from gymlab.campaigns.bench.measure import measure_training
    from gymlab.campaigns.bench.peer import measure_peer

    measured: dict[str, list[dict[str, float]]] = {name: [] for name in (["gymlab", "SB3"] if work else ["gymlab"])}
    with tempfile.TemporaryDirectory() as cache:
        for turn in range(repeats + 1):
            for name, found in measured.items():
                report(f"turn {turn} of {repeats}: {name}" if turn else f"warming up: {name}")
                if name == "gymlab":
                    result = measure_training(words, Path(cache))
                else:
                    assert work is not None
                    assert python is not None
                    result = measure_peer(python, work)
                if turn:
                    found.append(result)
    return measured
