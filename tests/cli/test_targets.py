"""The run a command means where it names none."""

import json

import pytest

from gymlab.runs import files
from gymlab.runs.manifest import FORMAT
from gymlab.runs.selection import newest_run
from tests.cli.stored_runs import TINY, make_run


def test_without_runs_every_command_says_what_to_do(cli):
    assert cli("stop").code == 0
    for command in ("wait", "logs"):
        done = cli(command)
        assert done.code == 2
        assert "gymlab train" in done.err
    done = cli("resume")
    assert done.code == 0
    assert "gymlab train" in done.out


def test_a_bare_resume_takes_the_newest_interrupted_run(cli):
    short = ["train", "CartPole-v1:ppo", *TINY, "--budget", "128"]
    root = cli.folder / "runs"
    assert cli(*short, "--run-id", "first", "-q").code == 0
    assert "gymlab resume first --budget" in cli("resume").out
    status = root / "first/status.json"
    files.write_json(status, {**files.read_json(status), "status": "running"})  # its process was killed
    assert cli("runs", "reindex").code == 0
    make_run(root, "without-checkpoint", "crashed")
    make_run(root, "newest", "finished")
    assert newest_run(root).run_id == "newest"
    done = cli("resume", "--json", "n_steps=16")
    assert json.loads(done.out.splitlines()[-1])["run_id"] == "first"


@pytest.fixture
def old_run(cli):
    paths = make_run(cli.folder / "runs", "old", "finished")
    files.write_json(paths.manifest, {**files.read_json(paths.manifest), "format": FORMAT - 1})
    return paths


@pytest.mark.parametrize(
    "command", ["resume", "eval", "play", "report", "diagnose", "runs show", "export --html", "compare old"]
)
def test_a_run_of_an_older_format_is_refused_with_one_line(cli, old_run, command):
    done = cli(*command.split(), old_run.run_id)
    assert done.code == 2
    assert done.err.strip().splitlines() == [
        f"error: run 'old' has format {FORMAT - 1}, and this gymlab reads {FORMAT}: train it anew"
    ]


def test_a_run_of_an_older_format_is_listed_and_can_be_removed(cli, old_run):
    assert "old" in cli("runs", "list").out
    assert cli("runs", "rm", "old").code == 0
    assert not old_run.root.exists()
