"""Ejected files are an oracle: one readable file without gymlab, whose weights are the lab's."""

from __future__ import annotations

import ast
import json
import subprocess
import sys

import numpy as np
import pytest

from gymlab.core.schedules import parse_schedule
from gymlab.hub.eject import eject, formula
from tests.hub.ejected_weights import SEED, distance, lab_weights, recipe_of
from tests.running import ROOT, environment

MOST_LINES = 400
RECIPES = [
    "CartPole-v1:ppo",
    "CartPole-v1:a2c",
    "CartPole-v1:reinforce",
    "Acrobot-v1:ppo",
    "MountainCar-v0:ppo",
    "MountainCar-v0:a2c",
    "MountainCarContinuous-v0:ppo",
    "Pendulum-v1:ppo",
    "Pendulum-v1:a2c",
    "FrozenLake-v1:ppo",
    "FrozenLake-v1:reinforce",
    "FrozenLake8x8-v1:ppo",
    "CliffWalking-v1:ppo",
    "Taxi-v4:ppo",
    "Bandit-v0:ppo",
    "Bandit-v0:reinforce",
]
SETTINGS = [
    "CartPole-v1:ppo target_kl=0.002 batch_size=64",
    "CartPole-v1:ppo target_kl=0.01 value_clip=0.2 batch_size=64 policy.shared=true policy.activation=relu",
    "CartPole-v1:ppo normalize.obs=true policy.hidden=[] normalize_advantage=false",
    "CartPole-v1:reinforce baseline=running_mean stale=none optimizer=rmsprop",
    "CartPole-v1:reinforce baseline=none normalize_advantage=false",
    "MountainCar-v0:a2c normalize.obs=false optimizer=sgd",
    "CartPole-v1:a2c optimizer=adamw",
    "Pendulum-v1:ppo policy.exploration=gaussian policy.hidden=[600,8] policy.value_hidden=[32]",
    "Pendulum-v1:ppo env.kwargs.g=5",
    "Bandit-v0:reinforce env.kwargs.drift=0.3",
    "Acrobot-v1 target_kl=0.02 value_clip=0.2",
]


@pytest.mark.parametrize("command", ["CartPole-v1:reinforce", "Pendulum-v1:ppo", "Taxi-v4:ppo"])
def test_a_file_is_short_and_imports_no_gymlab(command):
    text = eject(recipe_of(command), command)
    imported = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    }
    assert imported - set(sys.stdlib_module_names) - {"jax", "numpy", "gymnasium"} == set()
    assert len(text.splitlines()) < MOST_LINES


def test_a_file_run_alone_gives_the_labs_weights(tmp_path):
    recipe = recipe_of("CartPole-v1:ppo")
    (tmp_path / "ppo.py").write_text(eject(recipe, "CartPole-v1:ppo"))
    command = [sys.executable, "ppo.py", "--updates", "3", "--seed", str(SEED), "--save", "weights.npz"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "768 steps  return" in done.stdout
    assert distance(np.load(tmp_path / "weights.npz"), lab_weights(recipe, [3])[1]) <= 1e-6


def test_the_command_prints_the_file_and_names_itself(cli):
    answer = cli("eject", "Bandit-v0:ppo", "gamma=0.5", "--budget", "1k")
    assert answer.code == 0
    tree = ast.parse(answer.out)
    assert "gymlab eject Bandit-v0:ppo gamma=0.5 --budget 1k" in ast.get_docstring(tree)
    assert "UPDATES = 4\n" in answer.out


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("CartPole-v1:pixels", "env.wrappers=[pixels, frame_stack] cannot be ejected: use env.wrappers=[]"),
        ("CartPole-v1:ppo engine=gymnasium", "engine=gymnasium cannot be ejected: use engine=jax"),
        ("CartPole-v1:ppo vectorization=sync", "vectorization=sync cannot be ejected: use vectorization=auto"),
        ("CartPole-v1:ppo on_nan=skip", "on_nan=skip cannot be ejected: use on_nan=stop"),
        (
            "CartPole-v1:ppo on_lr_change=reset_moments",
            "ppo.on_lr_change=reset_moments cannot be ejected: use ppo.on_lr_change=keep",
        ),
        ("CartPole-v1:ppo optimizer=radam", "ppo.optimizer=radam cannot be ejected: did you mean 'adam'?"),
        ("MountainCar-v1:ppo", "did you mean"),
        ("Blackjack-v1", "env.id=Blackjack-v1 cannot be ejected (Blackjack-v1 has no compiled port): "),
    ],
)
def test_what_cannot_be_ejected_is_refused_by_its_key(cli, command, message):
    answer = cli("eject", *command.split())
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err
    assert answer.err.count("\n") == 1


def test_a_command_line_with_quotes_stays_a_docstring():
    recipe = recipe_of("Bandit-v0:ppo")
    text = eject(recipe, 'Bandit-v0:ppo "env.kwargs={n: \\"\\"\\"}" C:\\temp')
    assert "C:\\temp" in ast.get_docstring(ast.parse(text))


@pytest.mark.parametrize(
    "raw",
    [
        0.3,
        "lin_1e-3",
        {"start": 1e-3, "end": 1e-4, "shape": "cosine", "from": "10%", "to": 0.9},
        {"start": 0.9, "end": 0.99, "shape": "exp"},
        {"start": 0.2, "end": 0.1, "min": 0.15},
        {"start": 0.2, "end": 0.1, "shape": "constant", "to": 0.5},
        [[0, 0.02], [0.5, 0.0]],
    ],
)
def test_a_schedules_formula_gives_the_same_float32(raw):
    import math

    schedule = parse_schedule(raw)
    for progress in np.linspace(0, 1, 101).tolist():
        value = eval(formula(schedule), {"progress": progress, "np": np, "math": math})
        assert np.float32(value) == np.float32(schedule.at(progress))


@pytest.mark.slow
@pytest.mark.parametrize("command", [*RECIPES, *SETTINGS])
def test_the_weights_are_the_labs_after_3_and_20_updates(command):
    assert len(eject(recipe_of(command), command).splitlines()) < MOST_LINES
    flags = "--xla_backend_optimization_level=1"  # of a run
    program = [sys.executable, "-m", "tests.hub.ejected_weights", command]
    done = subprocess.run(
        program, cwd=ROOT, env=environment(XLA_FLAGS=flags), capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    _, first, third, last = json.loads(done.stdout)
    assert first == 0
    assert third <= 1e-6
    assert last <= 1e-6
