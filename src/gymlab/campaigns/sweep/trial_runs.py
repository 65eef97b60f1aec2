"""A trial's runs: what there is of them in the runs folder, and the task that takes each one step further."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from gymlab.campaigns.executors.pause_at_rung import AT_RUNG, RULED_OUT
from gymlab.campaigns.run_spec import RunSpec
from gymlab.campaigns.sweep.plan import Plan
from gymlab.campaigns.sweep.trial import Row
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
Phase = Literal["new", "begun", "there", "ruled out", "failed", "stopped"]


class Standing(NamedTuple):
    """How far a run is on its way to a rung, or to its end."""

    phase: Phase
    score: float | None = None
    env_steps: int = 0
    reason: str = ""


def standing(paths: RunPaths, pause_at: int | None) -> Standing:
    """Read from the run's folder, which is the truth whoever trained it. `there`: it has come as far as `pause_at`."""
    if not paths.exists or not paths.recipe.is_file() or not steps(paths):
        return Standing("new")
    status = read_status(paths)
    reason = str(status.get("stop_reason") or "")
    clock = status.get("clock") or {}
    done = int(clock.get("env_steps") or 0)
    if status["status"] == "failed":
        return Standing("failed", None, done, reason)
    if status["status"] == "stopped" and reason.startswith(RULED_OUT):
        return Standing("ruled out", None, done, reason)
    at_rung = status["status"] == "stopped" and reason == AT_RUNG and pause_at is not None and done >= pause_at
    if status["status"] != "finished" and not at_rung:
        asked = reason == "stopped by request"
        return Standing("stopped" if asked else "begun", None, done, reason)
    score = _score(paths, pause_at)
    return Standing("failed", None, done, "it has no evaluation") if score is None else Standing("there", score, done)


def _score(paths: RunPaths, pause_at: int | None) -> float | None:
    """The last evaluation or, of a run that has gone on since, the first at the rung or after it."""
    found = read_facts(paths, read_settings(paths.recipe), metrics=()).measured.evaluations
    if not len(found.returns):
        return None
    if pause_at is None:
        return float(found.returns[-1])
    later = [float(value) for at, value in zip(found.env_steps, found.returns, strict=True) if at >= pause_at]
    return later[0] if later else float(found.returns[-1])


def clear_way(paths: RunPaths, stopped: Callable[[], bool]) -> bool:
    """Wait until nobody writes the run, and remove what a kill left of one that never began; False where stopped.

    The workers of a killed parent put their runs in order for some seconds. What has no checkpoint has nothing to go on
    from, and is made anew.
    """
    while lock_holder(paths.lock) is not None:
        if stopped():
            return False
        time.sleep(POLL_SECONDS)
    if paths.root.exists() and standing(paths, None).phase == "new":
        known = paths.exists
        shutil.rmtree(paths.root)
        if known:
            Registry(paths.root.parent).remove(paths.run_id)
    return True


class Tasks:
    """Makes the tasks of one sweep."""

    def __init__(self, runs_root: Path, plan: Plan, command: tuple[str, ...]) -> None:
        self._root = runs_root
        self._plan = plan
        self._command = command
        self._base = plan.base()
        self._registered = registration_json(self._base.env.id)
        self._recipes: dict[tuple[str, ...], Recipe] = {}

    def recipe(self, row: Row) -> Recipe:
        """What a trial trains; UserError where its values do not go together."""
        if row.overrides not in self._recipes:
            self._recipes[row.overrides] = amend(self._base, row.overrides)
        return self._recipes[row.overrides]

    def paths(self, row: Row, seed: int) -> RunPaths:
        return run_paths(self._root, self._plan.run_id(row.index, seed))

    def task(self, row: Row, seed: int, number: int, pause_at: int | None) -> RunSpec:
        """The next step of one run, from nothing or from its last checkpoint."""
        plan = self._plan
        paths = self.paths(row, seed)
        common = {
            "number": number,
            "runs_root": str(self._root),
            "run_id": paths.run_id,
            "seed": seed,
            "full_budget": plan.full_budget,
            "command": self._command,
            "pause_at": pause_at,
            "stop_at_critical": plan.stop_sick,
        }
        if paths.exists:
            return RunSpec(**common, resume=True)  # type: ignore[arg-type]
        return RunSpec(
            **common,  # type: ignore[arg-type]
            recipe=dump_recipe(self.recipe(row)),
            registered=self._registered,
            group=plan.name,
            tags=("sweep", f"trial-{row.index}"),
            note=" ".join(row.overrides) or "the recipe itself",
            solved_at_source=plan.solved_at_source,
            init_from=plan.init_from,
        )
