"""TrialRuns: the runs of a trial as run specs, and how far each is on its way to a rung, read from its folder."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from gymlab.campaigns.executors.pause_at_rung import AT_RUNG, RULED_OUT
from gymlab.campaigns.run_spec import RunSpec, RunState
from gymlab.campaigns.sweep.plan import SweepPlan
from gymlab.campaigns.sweep.store import Trial
from gymlab.envs.registry import registration_json
from gymlab.recipes.keys import read_settings
from gymlab.recipes.resolve import amend
from gymlab.recipes.schema import Recipe
from gymlab.recipes.write import dump_recipe
from gymlab.reports.run_facts import read_facts
from gymlab.runs.checkpoints import steps
from gymlab.runs.locks import lock_holder
from gymlab.runs.paths import RunPaths, run_paths
from gymlab.runs.registry import Registry
from gymlab.runs.status import read_status

POLL_SECONDS = 0.1
RungPhase = Literal["new", "unfinished", "reached", "stopped by alert", "failed", "stopped by user"]


class RungState(NamedTuple):
    """How far a run is on its way to a rung, or to the end of its budget."""

    phase: RungPhase
    score: float | None = None  # only once it has reached it
    env_steps: int = 0
    reason: str = ""


def read_rung_state(paths: RunPaths, pause_at: int | None) -> RungState:
    """The state of a run, from its folder alone. `pause_at`: env_steps of the rung; None: the end of the budget."""
    if not paths.exists or not paths.recipe.is_file() or not steps(paths):
        return RungState("new")
    status = read_status(paths)
    state = RunState(status["status"])
    reason = str(status.get("stop_reason") or "")
    clock = status.get("clock")
    done = int(clock.get("env_steps") or 0) if clock else 0
    if state is RunState.FAILED:
        return RungState("failed", None, done, reason)
    if state is RunState.STOPPED and reason.startswith(RULED_OUT):
        return RungState("stopped by alert", None, done, reason)
    at_rung = state is RunState.STOPPED and reason == AT_RUNG and pause_at is not None and done >= pause_at
    if state is not RunState.FINISHED and not at_rung:
        by_user = reason == "stopped by request"
        return RungState("stopped by user" if by_user else "unfinished", None, done, reason)
    score = _read_score(paths, pause_at)
    if score is None:
        return RungState("failed", None, done, "it has no evaluation")
    return RungState("reached", score, done)


def _read_score(paths: RunPaths, pause_at: int | None) -> float | None:
    """The last evaluation; of a run that has trained past its rung, the first evaluation at or after the rung."""
    found = read_facts(paths, read_settings(paths.recipe), metrics=()).measured.evaluations
    if not len(found.returns):
        return None
    if pause_at is None:
        return float(found.returns[-1])
    later = [float(value) for at, value in zip(found.env_steps, found.returns, strict=True) if at >= pause_at]
    return later[0] if later else float(found.returns[-1])


def wait_and_clean(paths: RunPaths, stopped: Callable[[], bool]) -> bool:
    """Wait until no process writes the run, then remove it if it has no checkpoint; False if stopped while waiting.

    The workers of a killed parent still write checkpoints for some seconds. A run without a checkpoint cannot be
    resumed, and is trained anew.
    """
    while lock_holder(paths.lock) is not None:
        if stopped():
            return False
        time.sleep(POLL_SECONDS)
    if paths.root.exists() and read_rung_state(paths, None).phase == "new":
        known = paths.exists
        shutil.rmtree(paths.root)
        if known:
            Registry(paths.root.parent).remove(paths.run_id)
    return True


class TrialRuns:
    """Makes the run specs of one sweep."""

    def __init__(self, runs_root: Path, plan: SweepPlan, command: tuple[str, ...]) -> None:
        self._root = runs_root
        self._plan = plan
        self._command = command
        self._base = plan.base()
        self._registered = registration_json(self._base.env.id)
        self._recipes: dict[tuple[str, ...], Recipe] = {}

    def recipe(self, trial: Trial) -> Recipe:
        """The recipe a trial trains; UserError if its values do not fit together."""
        if trial.overrides not in self._recipes:
            self._recipes[trial.overrides] = amend(self._base, trial.overrides)
        return self._recipes[trial.overrides]

    def paths(self, trial: Trial, seed: int) -> RunPaths:
        return run_paths(self._root, self._plan.run_id(trial.index, seed))

    def spec(self, trial: Trial, seed: int, number: int, pause_at: int | None) -> RunSpec:
        """Train one run to `pause_at`, from the start or from its last checkpoint."""
        plan = self._plan
        paths = self.paths(trial, seed)
        common = {
            "number": number,
            "runs_root": str(self._root),
            "run_id": paths.run_id,
            "seed": seed,
            "full_budget": plan.full_budget,
            "command": self._command,
            "pause_at": pause_at,
            "stop_at_critical": plan.stop_at_critical,
        }
        if paths.exists:
            return RunSpec(**common, resume=True)  # type: ignore[arg-type]
        return RunSpec(
            **common,  # type: ignore[arg-type]
            recipe=dump_recipe(self.recipe(trial)),
            registered=self._registered,
            group=plan.name,
            tags=("sweep", f"trial-{trial.index}"),
            note=" ".join(trial.overrides) or "the recipe itself",
            solved_at_source=plan.solved_at_source,
            init_from=plan.init_from,
        )
