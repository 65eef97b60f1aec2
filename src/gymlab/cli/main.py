"""The `gymlab` command: its subcommands, error messages and exit codes."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable
from functools import cache
from typing import Annotated, NoReturn

import typer

from gymlab.cli import (
    autotune,
    bench,
    compare,
    config,
    diagnose,
    doctor,
    eject,
    envs,
    evaluate,
    explain,
    export,
    init,
    logs,
    mcp,
    next_steps,
    play,
    pretrained,
    queue,
    refs,
    report,
    results,
    runs,
    smoke,
    stop,
    study,
    sweep,
    tasks,
    trace,
    train,
    tune_envs,
    video,
    wait,
    web,
)

app = typer.Typer(
    name="gymlab",
    help="Train, prove, resume and share reinforcement-learning agents for Gymnasium environments.",
    epilog="Start with: gymlab train CartPole-v1:ppo",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)

app.command("train", rich_help_panel="Train")(train.train)
app.command("resume", rich_help_panel="Train")(train.resume)
app.command("stop", rich_help_panel="Train")(stop.stop)
app.command("wait", rich_help_panel="Train")(wait.wait)
app.command("logs", rich_help_panel="Train")(logs.logs)
app.add_typer(queue.app, name="queue", rich_help_panel="Train")
app.command("init", rich_help_panel="Train")(init.init)
app.command("play", rich_help_panel="Look")(play.play)
app.command("eval", rich_help_panel="Look")(evaluate.evaluate)
app.command("report", rich_help_panel="Look")(report.report)
app.command("diagnose", rich_help_panel="Look")(diagnose.diagnose)
app.command("video", rich_help_panel="Look")(video.video)
app.command("inspect", rich_help_panel="Look")(web.inspect)
app.command("web", rich_help_panel="Look")(web.web)
app.command("explain", rich_help_panel="Look")(explain.explain)
app.command("trace", rich_help_panel="Look")(trace.trace)
app.add_typer(runs.app, name="runs", rich_help_panel="Look")
app.command("compare", rich_help_panel="Tune")(compare.compare)
app.add_typer(results.app, name="results", rich_help_panel="Tune")
app.command("refs", rich_help_panel="Tune")(refs.refs)
app.add_typer(pretrained.app, name="pretrained", rich_help_panel="Share")
app.command("tune-envs", rich_help_panel="Tune")(tune_envs.tune_envs)
app.command("bench", rich_help_panel="Tune")(bench.bench)
app.add_typer(study.app, name="study", rich_help_panel="Tune")
app.add_typer(sweep.app, name="sweep", rich_help_panel="Tune")
app.command("autotune", rich_help_panel="Tune")(autotune.autotune)
app.command("next-steps", rich_help_panel="Tune")(next_steps.next_steps)
app.command("export", rich_help_panel="Share")(export.export)
app.command("eject", rich_help_panel="Share")(eject.eject)
app.command("mcp", rich_help_panel="Share")(mcp.mcp)
app.add_typer(envs.app, name="envs", rich_help_panel="Maintain")
app.add_typer(config.app, name="config", rich_help_panel="Maintain")
app.command("smoke", rich_help_panel="Maintain")(smoke.smoke)
app.command("tasks", rich_help_panel="Maintain")(tasks.tasks)
app.command("doctor", rich_help_panel="Maintain")(doctor.doctor)


def _version(requested: bool) -> None:
    if requested:
        from gymlab.core import __version__

        typer.echo(f"gymlab {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Train, prove, resume and share reinforcement-learning agents for Gymnasium environments."""


def _with_optional_values(words: list[str]) -> list[str]:
    """Append '=' to --wandb and --vmap where the next word is not their value but the recipe.

    `--wandb` takes a project only after '='; `--vmap` takes values only as a list, KEY=A,B.
    """
    following = [*words[1:], ""]
    trains = words[:1] != ["sweep"]  # `sweep --vmap` is a flag
    alone = [
        word == "--wandb" or (word == "--vmap" and trains and ("=" not in after or "," not in after))
        for word, after in zip(words, following, strict=True)
    ]
    return [f"{word}=" if bare else word for word, bare in zip(words, alone, strict=True)]


def exit_process(code: object) -> NoReturn:
    """Exit without tearing down the interpreter, which takes half a second with JAX loaded.

    Atexit functions run and output is flushed. With other threads, a profiler or a tracer, it is a plain sys.exit.
    """
    busy = any(not thread.daemon for thread in threading.enumerate() if thread is not threading.current_thread())
    if busy or sys.getprofile() or sys.gettrace() or isinstance(code, str):
        sys.exit(code)  # type: ignore[arg-type]
    atexit._run_exitfuncs()
    if not _flush_output():
        sys.exit(code)  # type: ignore[arg-type] # its own flush reports the error
    os._exit(code if isinstance(code, int) else 0)


def _flush_output() -> bool:
    """Flush stdout and stderr; False if that fails."""
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # closed by the parent process
                stream.flush()
    except (OSError, ValueError):
        return False
    return True


@cache
def _command() -> Callable[[], object]:
    """The command tree, built once: that takes longer than most commands run."""
    return typer.main.get_command(app)


def main() -> None:
    """Run a command. A user's mistake prints one message and exits with code 2, without a traceback."""
    from gymlab.core.errors import GymlabError

    sys.argv[1:] = _with_optional_values(sys.argv[1:])
    try:
        _command()()
    except GymlabError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except SystemExit as ended:
        if getattr(ended, "at_once", False):
            _flush_output()
            os._exit(ended.code if isinstance(ended.code, int) else 1)
        raise
    except BrokenPipeError:
        sys.exit(0)
