"""`gymlab play`: watch a run's policy, chance or yourself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

if TYPE_CHECKING:
    from gymlab.media.episode_trace import Wanted
    from gymlab.media.player import Played
    from gymlab.media.policy_player import Stage
    from gymlab.recipes.schema import Recipe


def play(
    what: Annotated[
        str,
        typer.Argument(metavar="[RUN|RECIPE|ENV]", help="RUN[/CHECKPOINT] or ENV[:VARIANT]."),
    ] = "@last",
    policy: Annotated[
        Literal["run", "random", "user"] | None,
        typer.Option(help="Who acts; default: the run's policy, or chance where there is no run."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the episodes.", min=0)] = 0,
    episodes: Annotated[int, typer.Option(help="How many.", min=1)] = 1,
    sampled: Annotated[bool, typer.Option("--sampled", help="The policy as it explores, not as it is judged.")] = False,
    record: Annotated[Path | None, typer.Option(metavar="PATH", help="Also write an mp4.")] = None,
    fps: Annotated[float | None, typer.Option(help="Steps per second; default: the env's own.", min=0.1)] = None,
    slow: Annotated[float, typer.Option(help="Times slower.", min=0.01)] = 1.0,
    step: Annotated[bool, typer.Option("--step", help="Every step waits for a key.")] = False,
    pretrained: Annotated[
        bool, typer.Option("--pretrained", help="A policy that comes with gymlab, by env or recipe.")
    ] = False,
    terminal: Annotated[bool, typer.Option("--terminal", help="In the terminal, not in a window.")] = False,
    imports: Annotated[list[str] | None, typer.Option("--import", help="Module that registers envs.")] = None,
) -> None:
    """Watch a run's policy, random actions or play yourself: in a window, or in the terminal where there is no screen.

    Example: gymlab play --pretrained CartPole-v1
    """
    from gymlab.media.player import HAND_FPS, Pace, Quit

    source, recipe = _shelved(what) if pretrained else _find(what, policy, imports or [])
    policy = policy or ("random" if source is None else "run")
    pace = Pace(fps or (HAND_FPS if policy == "user" else None), slow, step)
    title = recipe.name if source is None else source.title
    done: list[Played] = []
    with _screen(title, terminal=terminal) as screen, suppress(Quit), _opened(policy, recipe) as (env, stage):
        from gymlab.media.player import Show, at_random, by_hand, watch

        with Show(env, screen, pace, title, record) as show:
            if stage is not None:
                assert source is not None
                acting = watch(show, stage, *_policy(source, stage, seed, sampled=sampled), episodes)
            else:
                acting = (by_hand if policy == "user" else at_random)(show, recipe, seed, episodes)
            for played in acting:
                done.append(played)
    for number, played in enumerate(done):
        typer.echo(f"episode {number}: return {played.total:.6g} in {played.length} steps ({played.ended})")
    if record is not None:
        typer.echo(f"film: {record}")


@contextmanager
def _opened(policy: str, recipe: Recipe) -> Iterator[tuple[Any, Stage | None]]:
    """The env to look at and, for a run's policy, the stage around it."""
    from gymlab.media.player import open_env

    env = open_env(recipe)
    try:
        if policy != "run":
            yield env, None
            return
        from gymlab.media.policy_player import open_stage

        yield env, open_stage(recipe, lambda _: env)
    finally:
        env.close()


class _Source(NamedTuple):
    """Where a policy comes from."""

    title: str
    load: Callable[[], dict[str, Any]]  # its tensors


def _policy(source: _Source, stage: Stage, seed: int, *, sampled: bool) -> tuple[Any, Wanted]:
    from gymlab.media.episode_trace import Wanted

    return stage.policy(source.load()), Wanted(seed, greedy=not sampled)


def _shelved(what: str) -> tuple[_Source, Recipe]:
    from gymlab.campaigns.pretrained import find, shelf
    from gymlab.core.errors import UserError

    if what == "@last":
        raise UserError(f"--pretrained: of which env? There are {', '.join(item.name for item in shelf())}")
    item = find(what)
    return _Source(f"{item.name} (pretrained)", item.tensors), item.recipe()


def _find(what: str, policy: str | None, imports: list[str]) -> tuple[_Source | None, Recipe]:
    """The run and its recipe or, where nothing is called so, the recipe alone."""
    from gymlab.core.errors import UserError
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.recipes.resolve import read_run_recipe, resolve
    from gymlab.runs.checkpoints import load_checkpoint
    from gymlab.runs.selection import select_checkpoint

    try:
        paths, which = select_checkpoint(what, runs_folder(), default="best")
    except UserError as no_run:
        if policy == "run" or what.startswith("@"):
            raise
        try:
            return None, resolve(what, imports=imports).recipe
        except UserError as no_recipe:
            raise UserError(f"'{what}' is neither a run nor a recipe: {no_run}; {no_recipe}") from no_recipe
    loaded = load_checkpoint(paths, which, with_state=False)
    return _Source(f"{paths.run_id}/{loaded.path.name}", lambda: loaded.policy), read_run_recipe(paths.recipe)


@contextmanager
def _screen(title: str, *, terminal: bool) -> Iterator[Any]:
    """A window where there is a display, else the terminal, else nothing."""
    from gymlab.media.camera import has_screen, without_screen
    from gymlab.media.terminal_window import NoScreen, TerminalScreen

    without_screen()
    screen: Any = NoScreen()
    if has_screen() and not terminal and find_spec("pygame") is not None:
        from gymlab.media.desktop_window import WindowScreen

        screen = WindowScreen(title)
    elif sys.stdout.isatty():
        screen = TerminalScreen()
    with screen:
        yield screen
