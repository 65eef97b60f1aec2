"""`gymlab envs`: what it lists, what it finds wrong, and what it says to do about it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner, Result

from gymlab.cli.envs import app
from gymlab.core.errors import UserError
from gymlab.envs.check import CheckResult, check_env, ignores_seed
from gymlab.envs.settings import EnvSettings


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def by_title(findings: list[CheckResult]) -> dict[str, CheckResult]:
    return {finding.title: finding for finding in findings}


def levels(text: str, **kwargs: object) -> dict[str, str]:
    return {finding.title: finding.level for finding in check_env(text, kwargs)}


@pytest.mark.parametrize("env", ["CartPole-v1", "BipedalWalker-v3", "FrozenLake-v1"])
def test_a_good_env_has_nothing_to_put_right(env: str) -> None:
    assert set(levels(env).values()) == {"ok"}


def test_a_users_good_env_needs_no_rendering() -> None:
    assert {title for title, level in levels("tests.example_envs:Custom-v0").items() if level != "ok"} == {"rendering"}


def test_an_old_style_env_hears_of_everything_at_once() -> None:
    findings = by_title(check_env("tests.example_envs:OldStyle"))
    errors = {title for title, finding in findings.items() if finding.level == "error"}
    assert errors == {"seed", "reset", "observation", "step", "reward"}
    assert "def reset(self, *, seed=None, options=None)" in findings["seed"].fix
    assert findings["reset"].detail == "it returned one ndarray, not (obs, info)"
    assert findings["step"].detail == "it returned a tuple of 4, not 5 values"
    assert findings["observation"].detail == "the first observation has shape (3,), its space says (2,)"
    assert findings["action bounds"].level == "warn"


def test_a_careless_env_hears_about_its_contents() -> None:
    findings = by_title(check_env("tests.example_envs:Careless"))
    assert {title for title, finding in findings.items() if finding.level == "error"} == {"determinism"}
    assert "self.np_random" in findings["determinism"].fix
    assert {"bounds", "dtype", "terminated", "truncated", "time limit"} <= set(findings)
    assert "episodes" not in findings


def test_nan_is_found_with_its_step() -> None:
    nan = by_title(check_env("tests.example_envs:NotANumber-v0", {"k": 7}))["NaN"]
    assert nan.level == "error"
    assert nan.detail == "the observation of step 7 holds NaN or infinity: [nan]"


def test_an_env_that_raises_is_told_where() -> None:
    step = by_title(check_env("tests.example_envs:Raises-v0", {"k": 7}))["step"]
    assert step.level == "error"
    assert "RuntimeError: the simulator fell over (example_envs.py:" in step.detail


def test_an_env_that_raises_late_does_not_break_the_check() -> None:
    findings = by_title(check_env("tests.example_envs:Raises-v0", {"k": 150}))
    assert findings["world"].level == "error"
    assert "the simulator fell over" in findings["world"].detail


def test_an_env_that_remembers_is_told_so() -> None:
    episodes = by_title(check_env("tests.example_envs:Remembers-v0"))["episodes"]
    assert episodes.level == "warn"
    assert "depends on the ones before it" in episodes.detail


def test_a_missing_time_limit_and_a_mask_are_seen() -> None:
    assert levels("Blackjack-v1")["time limit"] == "warn"
    assert levels("tests.example_envs:Masked-v0")["action mask"] == "ok"


def test_an_unknown_env_names_the_nearest() -> None:
    made = check_env("CartPole-v9")[0]
    assert made.level == "error"
    assert "did you mean 'CartPole-v1'?" in made.detail


def test_check_prints_fixes_and_ends_with_what_to_do() -> None:
    bad = run("check", "tests.example_envs:OldStyle")
    assert bad.exit_code == 1
    assert "      fix: def reset(self" in bad.stdout
    assert bad.stdout.rstrip().endswith("run again: gymlab envs check tests.example_envs:OldStyle")
    good = run("check", "CartPole-v1")
    assert good.exit_code == 0
    assert good.stdout.rstrip().endswith("Next: gymlab train CartPole-v1")


def test_check_speaks_json() -> None:
    done = run("check", "tests.example_envs:NotANumber-v0", "--kwargs", '{"k": 3}', "--json")
    told = json.loads(done.stdout)
    assert done.exit_code == 1
    assert told["ok"] is False
    assert {"level", "title", "detail", "fix"} == set(told["findings"][0])


def test_copies_that_only_repeat_each_other_are_told() -> None:
    def copies(env: str) -> list[str]:
        return [finding.level for finding in check_env(env) if finding.title == "copies"]

    assert copies("CliffWalking-v1") == ["warn"]  # one start, and no chance in it
    assert copies("FrozenLake-v1") == copies("CartPole-v1") == []


def test_wrong_kwargs_are_the_users_mistake() -> None:
    assert isinstance(run("check", "CartPole-v1", "--kwargs", "{k: 3}").exception, UserError)
    assert isinstance(run("check", "CartPole-v1", "--kwargs", "[3]").exception, UserError)


def test_list_filters_and_speaks_json() -> None:
    rows = {row["id"]: row for row in json.loads(run("list", "--json").stdout)}
    assert rows["CartPole-v1"] == {
        "id": "CartPole-v1",
        "max_episode_steps": 500,
        "solved_at": 475.0,
        "optimum": 500.0,
        "needs": None,
    }
    shown = run("list", "lake").stdout
    assert "FrozenLake8x8-v1" in shown
    assert "CartPole" not in shown
    assert shown.rstrip().endswith("Train one with: gymlab train FrozenLake-v1")
    assert "no environment is called like 'xyz'" in run("list", "xyz").stdout


@pytest.mark.parametrize("command", ["list", "check"])
def test_help_ends_with_an_example(command: str) -> None:
    assert f"Example: gymlab envs {command}" in run(command, "--help").stdout


@pytest.mark.parametrize(
    ("env", "alike"), [("CartPole-v1", False), ("FrozenLake-v1", False), ("CliffWalking-v1", True)]
)
def test_envs_that_ignore_their_seed_are_copies(env, alike):
    assert ignores_seed(EnvSettings(id=env)) is alike
