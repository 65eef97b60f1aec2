"""A resume may change the size of an update, the budget and every cadence: all are counted on the run's clocks."""

import math
import random

import pytest

from gymlab.core.clock import Clock
from gymlab.recipes.resolve import read_run_recipe, resolve
from gymlab.recipes.schema import Share
from gymlab.runs.paths import RunPaths
from gymlab.session.session import Options
from gymlab.session.start import Continuation, resume, train
from gymlab.training.events import Evaluated, Feature, Started, Updated

SMALL = [
    "n_envs=2", "n_steps=16", "policy.hidden=[4]", "metrics.statistics=basic", "learning_rate=lin_0.01",
    "eval.episodes=1", "eval.final_episodes=1", "eval.every=25%",
]  # fmt: skip


class Heard(Feature):
    """What happened in one session: its updates, and where it evaluated."""

    name = "heard"

    def __init__(self):
        self.began = Clock()
        self.rows = []
        self.periodic = []

    def __call__(self, event, control):
        if isinstance(event, Started):
            self.began = event.clock
        elif isinstance(event, Updated):
            self.rows += event.rows
        elif isinstance(event, Evaluated) and event.kind == "periodic":
            self.periodic.append(event.clock)


class Lineage:
    """One run, in several sessions."""

    def __init__(self, folder, recipe, overrides, budget, full_budget=True):
        self.heard = Heard()
        recipe = resolve(recipe, [*SMALL, *overrides], budget=budget).recipe
        self.horizon = recipe.budget
        done = train(recipe, Options(full_budget=full_budget), folder, watchers=[self.heard])
        self.paths = RunPaths(done.run_dir)
        self._check(done)

    def resume(self, *overrides, budget=None, reschedule=False):
        self.heard = Heard()
        how = Continuation(overrides=overrides, budget=budget, reschedule=reschedule)
        done = resume(self.paths, how, watchers=[self.heard])
        if reschedule:
            self.horizon = read_run_recipe(self.paths.recipe).budget
        self._check(done)
        return done

    def _check(self, done):
        """Compare a session with what follows from clocks and settings alone."""
        recipe = read_run_recipe(self.paths.recipe)
        budget = recipe.budget
        size = {"vec_steps": recipe.n_steps, "env_steps": recipe.n_steps * recipe.n_envs}
        clocks = [self.heard.began, *(row.clock for row in self.heard.rows)]
        assert done.clock == clocks[-1]
        every = recipe.eval.every
        cadence = every.share * budget.count if isinstance(every, Share) else every.count
        cadence_clock = budget.clock if isinstance(every, Share) else every.clock
        due = []
        for before, row in zip(clocks, self.heard.rows, strict=False):
            now = row.clock
            assert now.updates == before.updates + 1
            assert all(now.at(name) == before.at(name) + steps for name, steps in size.items())
            assert now.gradient_steps >= before.gradient_steps
            assert now.seconds >= before.seconds
            assert row.metrics["time/progress"] == min(1.0, now.at(budget.clock) / budget.count)
            share = min(1.0, before.at(self.horizon.clock) / self.horizon.count)
            rate = recipe.algorithm.settings.learning_rate.at(share)
            assert row.metrics["hp/learning_rate"] == pytest.approx(rate, rel=1e-6, abs=1e-9)
            crossed = math.floor(now.at(cadence_clock) / cadence) > math.floor(before.at(cadence_clock) / cadence)
            if crossed and now.at(budget.clock) < budget.count:  # the final evaluation follows the last update
                due.append(now.updates)
        assert [clock.updates for clock in self.heard.periodic] == due
        if done.stop_reason == "budget":
            end = max(budget.count, self.heard.began.at(budget.clock))
            assert end <= done.clock.at(budget.clock) < end + size[budget.clock]


@pytest.mark.parametrize("engine", ["jax", "gymnasium"])
def test_a_budget_progress_schedules_and_evaluations_are_counted_in_steps_whatever_an_updates_size(tmp_path, engine):
    # 16 updates of 32 steps, then of 128: counted in updates, 512 more would be 4 of 8, and the 16 done too many.
    run = Lineage(tmp_path, "CartPole-v1:ppo", ["batch_size=32", f"engine={engine}"], "500")
    assert run.heard.rows[-1].clock.env_steps == 512
    done = run.resume("n_steps=64", "eval.every=300", budget="1000")
    assert (done.clock.env_steps, done.clock.updates) == (1024, 20)
    assert [clock.env_steps for clock in run.heard.periodic] == [640]  # 900 is crossed by the last update
    done = run.resume("n_steps=8", "batch_size=16", budget="550 vec_steps", reschedule=True)
    assert (done.clock.vec_steps, done.clock.updates) == (552, 25)


def test_a_budget_below_what_is_done_makes_no_update(tmp_path):
    run = Lineage(tmp_path, "CartPole-v1:a2c", [], "96")
    assert run.resume("n_steps=8", budget="50").clock.env_steps == 96


# What a resume may change, and values to draw from: a setting that is added to the lab joins here.
CHANGES = {
    "n_steps": (8, 16, 32),
    "learning_rate": (
        "lin_0.01", "0.003", "{start: 0.01, end: 0.001, from: 20%, to: 60%}", "{start: 0.01, end: 1e-4, shape: exp}",
        "[[0%, 0.01], [50%, 0.002], [100%, 0.001]]",
    ),
    "eval.every": ("25%", "10%", "100", "40 vec_steps"),
    "checkpoints.every": ("5%", "64", "30 vec_steps"),
    "eval.episodes": (1, 2),
    "metrics.rows_every": ("auto", 1, 3),
    "metrics.distributions_every": (1, 4),
    "stop.train_return": (12, 1000),
    "stop.plateau": (2, 100),
    "stop.seconds": (1000,),
}  # fmt: skip
CHANGES_OF = {"ppo": {"batch_size": (8, 16), "epochs": (1, 2)}}


def drawn_changes(rng, algorithm):
    table = CHANGES | CHANGES_OF.get(algorithm, {})
    return [f"{key}={rng.choice(table[key])}" for key in rng.sample(sorted(table), rng.randint(1, 4))]


def follow_chain(folder, engine, algorithm, mode, rng):
    fixed = [f"engine={engine}", f"eval.mode={mode}", *(["batch_size=16"] if algorithm == "ppo" else [])]
    run = Lineage(folder, f"CartPole-v1:{algorithm}", fixed, f"{rng.randint(150, 400)}")
    for _ in range(rng.randint(2, 3)):
        clock = rng.choice(["env_steps", "vec_steps"])
        done = run.heard.rows[-1].clock if run.heard.rows else run.heard.began
        count = max(1, int(done.at(clock) * rng.choice([0.5, 1.0, 1.3, 2.0])))
        run.resume(*drawn_changes(rng, algorithm), budget=f"{count} {clock}", reschedule=rng.random() < 0.5)


def test_a_chain_of_resumes_with_drawn_changes_counts_right(tmp_path):
    follow_chain(tmp_path, "jax", "a2c", "sync", random.Random(1))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("algorithm", ["ppo", "a2c", "reinforce"])
@pytest.mark.parametrize("engine", ["jax", "gymnasium"])
def test_any_chain_of_resumes_with_changes_counts_right(tmp_path, engine, algorithm, mode, seed):
    follow_chain(tmp_path, engine, algorithm, mode, random.Random(f"{engine} {algorithm} {mode} {seed}"))
