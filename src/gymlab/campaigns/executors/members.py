"""One member of a group, wherever it is trained: from its task to its last report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gymlab.campaigns.executors.pause_at_rung import Leash
from gymlab.campaigns.executors.protocol import Failed, Finished, NotBegun, Report, Task
from gymlab.campaigns.executors.reporter import Reporter
from gymlab.core.errors import GymlabError, UserError
from gymlab.envs.registration import register
from gymlab.recipes.resolve import read_run_text
from gymlab.runs.paths import RunPaths
from gymlab.runs.selection import select_checkpoint
from gymlab.session import start
from gymlab.session.build import Parts
from gymlab.session.result import Result
from gymlab.session.session import Options
from gymlab.session.signals import Interrupted
from gymlab.session.start import Make
from gymlab.trackers.assemble import Trackers


def last_report(task: Task, train: Callable[[], Result]) -> Report:
    """Train a member. Whatever goes wrong is this member's alone, and becomes its last report."""
    paths = RunPaths(Path(task.runs_root) / task.run_id)
    try:
        result = train()
    except Interrupted:
        return NotBegun(task.number)
    except GymlabError as error:
        return Failed(task.number, str(error), isinstance(error, UserError) and not paths.exists, paths.exists)
    except Exception as error:
        return Failed(task.number, f"{type(error).__name__}: {error}"[:2000], begun=paths.exists)
    return Finished(task.number, result.as_json() | {"exit_code": result.exit_code})


def session(task: Task, reporter: Reporter, make: Make, cores: tuple[int, ...] | None = None) -> Result:
    """A new run, or one that goes on, as `gymlab train` and `gymlab resume` have them. Evaluation may use `cores`."""
    root = Path(task.runs_root)
    trackers = Trackers(task.wandb, task.tensorboard)
    leash = Leash(task.pause_at, stop_sick=task.stop_sick)

    def announce(parts: Parts, notes: list[str]) -> None:
        leash.announce(parts, notes)
        reporter.announce(parts, notes)

    if task.resume:
        how = start.Continuation(
            overrides=task.overrides,
            budget=task.budget,
            full_budget=task.full_budget,
            reschedule=task.reschedule,
            command=task.command,
            trackers=trackers,
            evaluator_cores=cores,
        )
        return start.resume(RunPaths(root / task.run_id), how, watchers=[reporter, leash], announce=announce, make=make)
    register(task.registered)
    options = Options(
        task.seed,
        task.run_id,
        task.full_budget,
        task.tags,
        task.group,
        task.note,
        task.command,
        solved_at_source=task.solved_at_source,
        trackers=trackers,
        evaluator_cores=cores,
    )
    return start.train(
        read_run_text(task.recipe),
        options,
        root,
        watchers=[reporter, leash],
        announce=announce,
        init_from=None if task.init_from is None else select_checkpoint(task.init_from, root, default="best"),
        make=make,
    )
