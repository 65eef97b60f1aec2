"""The stages of an autotune that train with a worker pool: measure, search, choose."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from gymlab.campaigns.autotune.search import (
    CANDIDATES,
    CHOICE_SEEDS,
    choice_plan,
    search_end,
    search_plan,
    select_best,
    select_candidates,
    set_size,
    size_by_time,
    tuned_recipe,
)
from gymlab.campaigns.autotune.state import AutotuneState, write_state
from gymlab.campaigns.executors.pool import Pool
from gymlab.campaigns.executors.protocol import RunFailed, RunFinished
from gymlab.campaigns.run_spec import RunSpec
from gymlab.campaigns.sweep.plan import SweepPlan, sweep_folder
from gymlab.campaigns.sweep.runner import run_sweep
from gymlab.campaigns.sweep.store import Trial, create_store
from gymlab.core.errors import RunError
from gymlab.envs.registry import registration_json
from gymlab.recipes.resolve import amend
from gymlab.recipes.schema import Recipe
from gymlab.recipes.write import dump_recipe
from gymlab.session.signals import watch_signals

_MEASURED_UPDATES = 24


class AutotuneInterrupted(Exception):
    """A signal was received; the state and all runs are kept."""

    def __init__(self, exit_code: int) -> None:
        super().__init__("interrupted")
        self.exit_code = exit_code


class Stages:
    """One session of an autotune, up to the choice."""

    def __init__(self, runs_root: Path, state: AutotuneState, output: str, say: Callable[[str], None]) -> None:
        self.state = state
        self._spent_before = state.spent
        self._start = time.monotonic()
        self._root = runs_root
        self._output = output
        self._say = say

    @property
    def spent(self) -> float:
        """Seconds so far, of this session and all earlier ones."""
        return self._spent_before + time.monotonic() - self._start

    def run(self, command: tuple[str, ...]) -> AutotuneState:
        """Tune until the settings are chosen. After AutotuneInterrupted the same call resumes."""
        self._command = command
        if self.state.stage in ("confirm", "done"):
            return self.state
        with Pool(self.state.workers) as pool:
            if not self.state.env_steps:
                self._decide_size(pool)
            recipe = tuned_recipe(self.state)
            if self.state.stage == "search":
                trials = self._sweep(search_plan(self.state, recipe), pool, self._out_of_time)
                cut = sum(trial.ended for trial in trials) < self.state.trials
                update = {"stage": "choice", "candidates": select_candidates(trials), "cut": cut}
                self._save(self.state.model_copy(update=update))
            return self._save(self.state.model_copy(update={"stage": "confirm", **self._choose(recipe, pool)}))

    def _choose(self, recipe: Recipe, pool: Pool) -> dict[str, object]:
        """The state's fields `chosen` and `pace`."""
        if not self.state.candidates:
            return {"chosen": ()}
        before = self.spent
        runs = len(self.state.candidates) * len(CHOICE_SEEDS)
        trials = self._sweep(choice_plan(self.state, recipe), pool, lambda: False)
        return {"chosen": select_best(trials), "pace": (self.spent - before) * self.state.workers / runs}

    def _save(self, state: AutotuneState) -> AutotuneState:
        self.state = write_state(self._root, state.model_copy(update={"spent": self.spent}))
        return self.state

    def _decide_size(self, pool: Pool) -> None:
        """Fix the steps of a run and the number of trials: as requested, or by measuring the speed."""
        recipe = tuned_recipe(self.state)
        (env_steps, trials, _) = self.state.requested
        if env_steps is not None and trials is not None:
            self._save(set_size(self.state, recipe, env_steps, trials))
        else:
            self._say(f"measuring {self.state.reference} on {self.state.workers} cores")
            self._save(size_by_time(self.state, recipe, self._measure(pool)))
        self._say(self._format_size())

    def _out_of_time(self) -> bool:
        """Never if the size was requested instead of derived from a measured speed."""
        return bool(self.state.speed) and self.spent > search_end(self.state)

    def _format_size(self) -> str:
        state = self.state
        speed = f"{state.speed:,.0f} env_steps a second and core: " if state.speed else ""
        size = f"runs of {state.env_steps:,} env_steps, {state.trials} trials at most"
        return f"{speed}{size}; the best {CANDIDATES} on other seeds; then the comparison"

    def _sweep(self, plan: SweepPlan, pool: Pool, out_of_time: Callable[[], bool]) -> list[Trial]:
        store = create_store(self._root, plan)
        outcome = run_sweep(
            self._root, store, pool, output=self._output, command=self._command, out_of_time=out_of_time
        )
        if not outcome.complete:
            self._save(self.state)
            raise AutotuneInterrupted(outcome.exit_code)
        return outcome.trials

    def _measure(self, pool: Pool) -> float:
        """env_steps per second of a worker after compilation, evaluation included, while all workers are busy."""
        recipe = tuned_recipe(self.state)
        folder = sweep_folder(self._root, self.state.name) / "pace"
        shutil.rmtree(folder, ignore_errors=True)
        text = _short_recipe(recipe)
        speeds = []
        reasons = []
        with watch_signals(pool.stop) as interrupts:
            for number in range(2 * pool.size):
                pool.submit(
                    RunSpec(
                        number,
                        str(folder),
                        f"pace-{number}",
                        number,
                        text,
                        registration_json(recipe.env.id),
                        full_budget=True,
                    )
                )
            for report in pool.reports():
                if isinstance(report, RunFinished) and report.result["status"] == "finished":
                    speeds.append(report.result["env_steps"] / max(report.result["seconds"], 1e-3))
                elif isinstance(report, RunFailed):
                    reasons.append(report.message)
        shutil.rmtree(folder, ignore_errors=True)
        if interrupts.received is not None:
            raise AutotuneInterrupted(interrupts.exit_code)
        if not speeds:
            raise RunError(f"the recipe itself does not train: {reasons[0] if reasons else 'no result'}")
        return max(speeds)  # each worker compiles in its first run


def _short_recipe(recipe: Recipe) -> str:
    steps = _MEASURED_UPDATES * recipe.n_envs * recipe.n_steps
    return dump_recipe(amend(recipe, [f"budget={steps} env_steps", "eval.every=100%", "eval.final_episodes=20"]))
