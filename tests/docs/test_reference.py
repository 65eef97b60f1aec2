"""The reference pages agree with the code."""

import re
import subprocess
import sys

import jax
import numpy as np
import pytest
from tests.docs.snippets import ROOT
from typer.testing import CliRunner

from gymlab.algorithms.registry import ALGORITHMS
from gymlab.cli.main import app
from gymlab.core.clock import Clock
from gymlab.metrics.catalogue import METRICS, check_names, declared
from gymlab.recipes.resolve import resolve
from gymlab.runs.metrics_reader import MetricsReader
from gymlab.session.build import build
from gymlab.session.session import Options
from gymlab.session.start import train
from gymlab.training.trainer import learning_clock

COMMANDS = re.findall(r"^## gymlab (.+)$", (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8"), re.MULTILINE)
PAGE = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
CLOCKS = {"updates", "vec_steps", "env_steps", "gradient_steps", "episodes", "seconds"}
# What none of the runs below has; tests/training/test_update_stats.py and others show it where it exists.
ELSEWHERE = {
    "roll/action_mean/*", "roll/action_std/*", "roll/actions/hist/*", "opt/policy_std/*",  # several components
    "opt/policy_std", "roll/action_clipped",  # continuous actions
    "env/reward_mean/*", "env/reward_share/*", "env/reward_nonzero/*",  # rewards with named parts
    "env/obs_mean/*", "env/obs_std/*", "env/obs_min/*", "env/obs_max/*",  # several features
    "opt/dead_units", "opt/dead_units/*",  # ReLU
    "score/steps_to_threshold", "score/vec_steps_to_threshold",  # a threshold that was reached
    "score/first_return",  # an episode that ended in training
    "sys/skipped_updates", "sys/gpu_memory", "sys/gpu_load", "sys/rss", "sys/cpu", "time/compile",
    "time/evaluate_wait", "sys/trackers_down",
    "intrinsic/reward_mean", "intrinsic/reward_std",  # algorithms with a bonus of their own
}  # fmt: skip
TINY = ["n_envs=2", "n_steps=8", "budget=32", "policy.hidden=[4]", "eval.episodes=2", "eval.final_episodes=2"]


def test_the_generated_pages_are_not_stale():
    done = subprocess.run(
        [sys.executable, ROOT / "docs/generate.py", "--check"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command):
    done = CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "100"})
    assert done.exit_code == 0, repr(done.exception)
    assert "Usage: gymlab" in done.output


def recorded_by_a_run(folder):
    """The names in the store after a PPO run on the host, where times of both phases are known."""
    recipe = resolve("Bandit-v0:ppo", [*TINY, "batch_size=8", "epochs=1", "engine=gymnasium"]).recipe
    result = train(recipe, Options(), folder)
    with MetricsReader(result.run_dir / "metrics.db") as reader:
        return {*reader.names(), *reader.histogram_names()}


def named_by_an_update(algorithm):
    """The names an update of a compiled run gives, without compiling one."""
    parts = build(
        resolve(f"Bandit-v0:{algorithm}", [*TINY, *(["batch_size=8"] if algorithm == "ppo" else [])]).recipe, 0
    )
    state = jax.eval_shape(parts.program._begin, *parts.program._first_keys(0))
    hp = jax.ShapeDtypeStruct((len(parts.plan.hp_names) + 1,), np.float32)
    clock = learning_clock(Clock())
    names = set(jax.eval_shape(parts.program.update, state, clock, hp, np.bool_(True))[1])
    looked = [*parts.agent.layout.values, *(name for name, _ in parts.agent.layout.histograms)]
    return names | {f"hp/{name}" for name in parts.plan.hp_names} | set(looked)


def test_what_is_declared_is_what_is_recorded_and_on_the_page(tmp_path):
    found = recorded_by_a_run(tmp_path).union(*map(named_by_an_update, ALGORITHMS))
    assert check_names(found) == []
    recorded = {declared(name).name for name in found} | CLOCKS
    assert {metric.name for metric in METRICS} - recorded - ELSEWHERE == set()
    assert [metric.name for metric in METRICS if f"| `{metric.name}` |" not in PAGE] == []


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_number_of_an_algorithm_is_recorded_as_hp(algorithm):
    settings = ALGORITHMS[algorithm].Settings()
    assert {f"hp/{name}" for name in settings.schedules()} <= named_by_an_update(algorithm)
