"""The reference pages agree with the code."""

import re
import subprocess
import sys

import jax
import numpy as np
import pytest
from tests.docs.snippets import ROOT
from typer.testing import CliRunner

from gymlab.algorithms.catalogue import ALGORITHMS
from gymlab.cli.main import app
from gymlab.experiment.build import build
from gymlab.experiment.launch import train
from gymlab.experiment.session import Options
from gymlab.recipes.load import resolve
from gymlab.runs.metrics import MetricsReader

COMMANDS = re.findall(r"^## gymlab (.+)$", (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8"), re.MULTILINE)
PAGE = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
NAMED = {name for row in re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE) for name in re.findall(r"`(.+?)`", row)}
CLOCKS = {"updates", "vec_steps", "env_steps", "episodes", "seconds"}
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
        return set(reader.names())


def named_by_an_update(algorithm):
    """The names an update of a compiled run gives, without compiling one."""
    parts = build(
        resolve(f"Bandit-v0:{algorithm}", [*TINY, *(["batch_size=8"] if algorithm == "ppo" else [])]).recipe, 0
    )
    state = jax.eval_shape(parts.program._begin, jax.random.key(0))
    hp = jax.ShapeDtypeStruct((len(parts.plan.hp_names),), np.float32)
    names = set(jax.eval_shape(parts.program._update, state, np.uint32(0), hp)[1])
    return names | {f"hp/{name}" for name in parts.plan.hp_names}


def test_the_metrics_page_names_what_is_recorded_and_nothing_else(tmp_path):
    found = recorded_by_a_run(tmp_path).union(*map(named_by_an_update, ALGORITHMS))
    assert {name for name in found if not name.startswith("hp/")} | CLOCKS == NAMED


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_number_of_an_algorithm_is_recorded_as_hp(algorithm):
    settings = ALGORITHMS[algorithm].Settings()
    assert {f"hp/{name}" for name in settings.schedules()} <= named_by_an_update(algorithm)
