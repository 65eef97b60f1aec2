"""In-process training of one `RunSpec`, as the workers of a pool and the threads of a vmapped program do it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gymlab.campaigns.executors.pause_at_rung import PauseAtRung
from gymlab.campaigns.executors.protocol import RunEnd, RunFailed, RunFinished, RunNotBegun
from gymlab.campaigns.executors.reporter import Reporter
from gymlab.campaigns.run_spec import RunSpec
from gymlab.core.errors import GymlabError, UserError
from gymlab.envs.registry import register_from_json
from gymlab.recipes.resolve import read_run_text
from gymlab.runs.selection import select_checkpoint
from gymlab.session import start
from gymlab.session.result import Result
from gymlab.session.run_summary import RunSummary
from gymlab.session.session import Make, Options
from gymlab.session.signals import Interrupted
from gymlab.trackers.assemble import Trackers


def run_end(spec: RunSpec, train: Callable[[], Result]) -> RunEnd:
    """Train a run; its last report. Errors are reported, never raised: they concern this run alone."""
    try:
        result = train()
    except Interrupted:
        return RunNotBegun(spec.number)
    except GymlabError as error:
        made = spec.paths.exists
        return RunFailed(spec.number, str(error), isinstance(error, UserError) and not made, made)
    except Exception as error:  # envs and plugins may raise anything, and the other runs of this process continue
        return RunFailed(spec.number, f"{type(error).__name__}: {error}"[:2000], begun=spec.paths.exists)
    return RunFinished(spec.number, result.as_json() | {"exit_code": result.exit_code})


def train_spec(spec: RunSpec, reporter: Reporter, make: Make, cores: tuple[int, ...] | None = None) -> Result:
    """Train a new run or resume one, as `gymlab train` and `gymlab resume` do. Evaluation may use `cores`."""
    root = Path(spec.runs_root)
    trackers = Trackers(spec.wandb, spec.tensorboard)
    pause = PauseAtRung(spec.pause_at, stop_at_critical=spec.stop_at_critical)

    def announce(summary: RunSummary) -> None:
        pause.announce(summary.recipe)
        reporter.announce(summary)

    if spec.resume:
        how = start.Continuation(
            overrides=spec.overrides,
            budget=spec.budget,
            full_budget=spec.full_budget,
            reschedule=spec.reschedule,
            command=spec.command,
            trackers=trackers,
            evaluator_cores=cores,
        )
        return start.resume(spec.paths, how, watchers=[reporter, pause], announce=announce, make=make)
    register_from_json(spec.registered)
    options = Options(
        spec.seed,
        spec.run_id,
        bool(spec.full_budget),
        spec.tags,
        spec.group,
        spec.note,
        spec.command,
        solved_at_source=spec.solved_at_source,
        trackers=trackers,
        evaluator_cores=cores,
    )
    return start.train(
        read_run_text(spec.recipe),
        options,
        root,
        watchers=[reporter, pause],
        announce=announce,
        init_from=None if spec.init_from is None else select_checkpoint(spec.init_from, root, default="best"),
        make=make,
    )
