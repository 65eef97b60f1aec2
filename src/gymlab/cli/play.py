"""`gymlab play`: shows a run's policy or random actions, or takes actions from the keyboard."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from gymlab.cli.options import EnvImports

if TYPE_CHECKING:
    from gymlab.media.play_session import PlayResult
    from gymlab.media.policy_player import PolicyPlayer
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
    imports: EnvImports = None,
) -> None:
    """Watch a run's policy, random actions or play yourself: in a window, or in the terminal where there is no screen.

    Example: gymlab play --pretrained CartPole-v1
    """
    from gymlab.media.play_session import HAND_FPS, Pace, Quit

    source, recipe = _find_pretrained(what) if pretrained else _find(what, policy, imports or [])
    policy = policy or ("random" if source is None else "run")
    pace = Pace(fps or (HAND_FPS if policy == "user" else None), slow, step)
    title = recipe.name if source is None else source.title
    results: list[PlayResult] = []
    with _screen(title, terminal=terminal) as screen, suppress(Quit), _open(policy, recipe) as (env, player):
        from gymlab.media.play_session import PlaySession, play_at_random, play_by_hand, play_policy
        from gymlab.media.policy_player import EpisodeOptions

        with PlaySession(env, screen, pace, title, record) as session:
            if player is not None:
                assert source is not None
                options = EpisodeOptions(seed, greedy=not sampled)
                playing = play_policy(session, player, player.policy(source.load()), options, episodes)
            else:
                playing = (play_by_hand if policy == "user" else play_at_random)(session, recipe, seed, episodes)
            for result in playing:
                results.append(result)  # kept also where the user quits
    for number, result in enumerate(results):
        typer.echo(f"episode {number}: return {result.total:.6g} in {result.length} steps ({result.ended})")
    if record is not None:
        typer.echo(f"film: {record}")


@contextmanager
def _open(policy: str, recipe: Recipe) -> Iterator[tuple[Any, PolicyPlayer | None]]:
    """The env to show and, for a run's policy, its player."""
    from gymlab.media.play_session import open_env

    env = open_env(recipe)
    try:
        if policy != "run":
            yield env, None
            return
        from gymlab.media.policy_player import open_player

        yield env, open_player(recipe, lambda _: env)
    finally:
        env.close()


class _PolicySource(NamedTuple):
    """A policy to play, with its title."""

    title: str
    load: Callable[[], dict[str, Any]]  # its tensors


def _find_pretrained(what: str) -> tuple[_PolicySource, Recipe]:
    from gymlab.campaigns.pretrained import find, pretrained_policies
    from gymlab.core.errors import UserError

    if what == "@last":
        raise UserError(
            f"--pretrained: of which env? There are {', '.join(item.name for item in pretrained_policies())}"
        )
    item = find(what)
    return _PolicySource(f"{item.name} (pretrained)", item.tensors), item.recipe()


def _find(what: str, policy: str | None, imports: list[str]) -> tuple[_PolicySource | None, Recipe]:
    """The run and its recipe or, if no run has that name, the recipe alone."""
    from gymlab.core.errors import FormatError, UserError
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.recipes.resolve import read_run_recipe, resolve
    from gymlab.runs.checkpoints import load_checkpoint
    from gymlab.runs.selection import select_checkpoint

    try:
        paths, which = select_checkpoint(what, runs_folder(), default="best")
    except FormatError:
        raise
    except UserError as no_run:
        if policy == "run" or what.startswith("@"):
            raise
        try:
            return None, resolve(what, imports=imports).recipe
        except UserError as no_recipe:
            raise UserError(f"'{what}' is neither a run nor a recipe: {no_run}; {no_recipe}") from no_recipe
    loaded = load_checkpoint(paths, which, with_state=False)
    return _PolicySource(f"{paths.run_id}/{loaded.path.name}", lambda: loaded.policy), read_run_recipe(paths.recipe)


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
