"""The run a command means where it names none."""

import json

from gymlab.runs import files
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
