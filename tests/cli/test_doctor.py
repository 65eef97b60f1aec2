"""doctor tells what is here, and what is wrong."""

import json
import os
import tomllib

import pytest

from gymlab.session import machine_check
from tests.running import ROOT

pytestmark = pytest.mark.fast


def test_everything_is_told_and_all_is_well(cli):
    done = cli("doctor", "--json")
    assert done.code == 0, done.out
    facts = json.loads(done.out)
    assert facts["ok"]
    assert facts["versions"].keys() >= {"python", "gymlab", "jax", "numpy", "gymnasium"}
    assert facts["devices"][0]["platform"] == "cpu"
    assert facts["machine"]["cores"] >= 1
    assert facts["machine"]["memory_bytes"] > facts["machine"]["memory_free_bytes"] > 0
    assert facts["runs"]["writable"]
    assert facts["runs"]["free_bytes"] > 0
    assert facts["cache"]["folder"] == os.environ["GYMLAB_CACHE"]
    assert facts["extras"]["box2d"]
    assert not any(problem["level"] == "essential" for problem in facts["problems"])
    assert not (cli.folder / "runs").exists(), "looking must not make folders"


def test_every_extra_is_looked_for():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(machine_check.EXTRAS) == set(extras) - {"dev", "all", "play"}


def test_what_is_wrong_comes_with_its_cure(cli, monkeypatch):
    (cli.folder / "file").write_text("")
    monkeypatch.setenv("GYMLAB_RUNS", str(cli.folder / "file/runs"))
    monkeypatch.setenv("JAX_PLATFORMS", "abacus")
    done = cli("doctor")
    assert done.code == 1
    assert "essential: runs folder" in done.out
    assert "fix: choose another folder with $GYMLAB_RUNS" in done.out
    assert "essential: JAX does not start: " in done.out
    assert "abacus" in done.out


def test_a_broken_settings_file_is_a_problem_not_a_crash(cli, monkeypatch):
    monkeypatch.setattr(machine_check, "_devices", lambda problems: [])
    monkeypatch.delenv("GYMLAB_RUNS")
    (cli.folder / "gymlab.toml").write_text("runz = 'here'\n")
    done = cli("doctor")
    assert done.code == 1
    assert "did you mean 'runs'?" in done.out


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_found(folder, monkeypatch):
    (folder / "runs").mkdir(mode=0o500)
    assert "denied" in machine_check._writing_fault(folder / "runs")


def test_a_little_space_is_advice_and_none_is_essential(folder, monkeypatch):
    for free, level in ((10**8, "advice"), (10**6, "essential")):
        monkeypatch.setattr(machine_check.shutil, "disk_usage", lambda _, free=free: _Usage(free))
        problems = []
        machine_check._runs(folder / "runs", problems)
        assert [problem.level for problem in problems] == [level]
        assert "gymlab runs rm" in problems[0].fix


class _Usage:
    def __init__(self, free):
        self.free = free
