"""Runs of shipped recipes raise nothing of severity warning or above."""

import json

import pytest

from gymlab.recipes.resolve import resolve
from gymlab.session.session import Options
from gymlab.session.start import train


def raised(recipe, folder, seed, **options):
    result = train(resolve(recipe).recipe, Options(seed=seed, **options), folder)
    found = json.loads((result.run_dir / "alerts.json").read_text())["alerts"]
    assert "## Alerts" in (result.run_dir / "report.md").read_text()
    return {alert["id"]: alert["evidence"] for alert in found if alert["severity"] != "info"}


def test_a_healthy_cartpole_run_raises_no_warning(tmp_path):
    assert raised("CartPole-v1:ppo", tmp_path, seed=0) == {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("recipe", ["CartPole-v1:ppo", "FrozenLake-v1:ppo", "LunarLander-v3:ppo"])
def test_a_healthy_run_raises_no_warning(recipe, seed, tmp_path):
    assert raised(recipe, tmp_path, seed) == {}


@pytest.mark.slow
def test_a_run_that_goes_on_after_it_has_solved_its_task_raises_no_warning(tmp_path):
    assert raised("CartPole-v1:ppo", tmp_path, seed=0, full_budget=True) == {}
