"""The stages of an autotune that train with a pool of warm workers: measuring, searching, choosing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gymlab.campaigns.autotune.autotune import (
    CANDIDATES,
    CHOICE_SEEDS,
    State,
    Watchmaker,
    candidates,
    choice_plan,
    choose,
    decide,
    search_ends,
    search_plan,
    settle,
    tuned_recipe,
    write_state,
)
from gymlab.campaigns.executors.pool import Pool
from gymlab.campaigns.executors.protocol import RunFailed, RunFinished
from gymlab.campaigns.run_spec import RunSpec
from gymlab.campaigns.sweep.plan import Plan, sweep_folder
from gymlab.campaigns.sweep.progress import shown
from gymlab.campaigns.sweep.runner import Driver
from gymlab.campaigns.sweep.store import open_ledger
from gymlab.campaigns.sweep.trial import Row
from gymlab.core.errors import RunError
from gymlab.envs.registry import registration_json
from gymlab.recipes.resolve import amend
from gymlab.recipes.schema import Recipe
from gymlab.recipes.write import dump_recipe
from gymlab.session.signals import watch_signals

_MEASURED_UPDATES = 24


class Interrupted(Exception):
    """A signal came; all that was done is kept."""

    def __init__(self, exit_code: int) -> None:
        super().__init__("interrupted")
        self.exit_code = exit_code


class Stages:
    """One session of an autotune, up to its choice."""

    def __init__(self, runs_root: Path, state: State, output: str, say: Callable[[str], None]) -> None:
        self.state = state
        self.clock = Watchmaker(state.spent)
        self._root = runs_root
        self._output = output
        self._say = say

    def run(self, command: tuple[str, ...]) -> State:
        """To the tuned settings; Interrupted on a signal, and the same again goes on."""
        self._command = command
        if self.state.stage in ("confirm", "done"):
            return self.state
        with Pool(self.state.workers) as pool:
            if not self.state.env_steps:
                self._decide(pool)
            recipe = tuned_recipe(self.state)
            if self.state.stage == "search":
                rows = self._do(search_plan(self.state, recipe), pool, self._late)
                cut = sum(row.ended for row in rows) < self.state.trials
                found = {"stage": "choice", "candidates": candidates(rows), "cut": cut}
                self._keep(self.state.model_copy(update=found))
            return self._keep(self.state.model_copy(update={"stage": "confirm", **self._choose(recipe, pool)}))

    def _choose(self, recipe: Recipe, pool: Pool) -> dict[str, Any]:
        """What the state has of the choice."""
        if not self.state.candidates:
            return {"chosen": ()}
        before = self.clock.spent
        runs = len(self.state.candidates) * len(CHOICE_SEEDS)
        rows = self._do(choice_plan(self.state, recipe), pool, lambda: False)
        return {"chosen": choose(rows), "pace": (self.clock.spent - before) * self.state.workers / runs}

    def _keep(self, state: State) -> State:
        self.state = write_state(self._root, state.model_copy(update={"spent": self.clock.spent}))
        return self.state

    def _decide(self, pool: Pool) -> None:
        """How much there is to do: as the user says, or by the time there is."""
        recipe = tuned_recipe(self.state)
        (env_steps, trials, _) = self.state.given
        if env_steps is not None and trials is not None:
            self._keep(settle(self.state, recipe, env_steps, trials))
        else:
            self._say(f"measuring {self.state.reference} on {self.state.workers} cores")
            self._keep(decide(self.state, recipe, self._measure(pool)))
        self._say(self._told())

    def _late(self) -> bool:
        """Where speed was not asked for, time plays no part."""
        return bool(self.state.speed) and self.clock.spent > search_ends(self.state)

    def _told(self) -> str:
        state = self.state
        speed = f"{state.speed:,.0f} env_steps a second and core: " if state.speed else ""
        many = f"runs of {state.env_steps:,} env_steps, {state.trials} trials at most"
        return f"{speed}{many}; the best {CANDIDATES} on other seeds; then the comparison"

    def _do(self, plan: Plan, pool: Pool, until: Callable[[], bool]) -> list[Row]:
        ledger = open_ledger(self._root, plan)
        with shown(plan, self._output) as watch:
            driver = Driver(self._root, ledger, watch, self._command)
            driver.until = until
            watch.rows(ledger.rows())
            with watch_signals(driver.stop) as interrupts:
                complete = driver.run(pool)
            rows = ledger.rows()
            watch.rows(rows)
        if not complete:
            self._keep(self.state)
            raise Interrupted(interrupts.exit_code)
        return rows

    def _measure(self, pool: Pool) -> float:
        """env_steps a second of a worker whose program is compiled, evaluation included, while all are busy."""
        recipe = tuned_recipe(self.state)
        folder = sweep_folder(self._root, self.state.name) / "pace"
        shutil.rmtree(folder, ignore_errors=True)
        text = _short(recipe)
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
            raise Interrupted(interrupts.exit_code)
        if not speeds:
            raise RunError(f"the recipe itself does not train: {reasons[0] if reasons else 'no result'}")
        return max(speeds)  # the later ones: those before compiled


def _short(recipe: Recipe) -> str:
    steps = _MEASURED_UPDATES * recipe.n_envs * recipe.n_steps
    return dump_recipe(amend(recipe, [f"budget={steps} env_steps", "eval.every=100%", "eval.final_episodes=20"]))
