"""`gymlab runs`: thin, truthful, and quiet about nothing."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from gymlab.cli.runs import app
from gymlab.core.clock import Clock
from gymlab.core.errors import RunError, UserError
from gymlab.runs.checkpoints import save_checkpoint
from gymlab.runs.metrics_writer import MetricsWriter
from gymlab.runs.store import RunStore


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GYMLAB_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path / "runs"


def make(root: Path, run_id: str, note: str | None = None) -> RunStore:
    store = RunStore.create(root, run_id, name="CartPole-v1:ppo")
    store.write_manifest({"recipe": "CartPole-v1:ppo", "env": {"id": "CartPole-v1"}, "seed": 0, "note": note})
    store.start()
    clock = Clock(1, 32, 256, 2, 0.5)
    with MetricsWriter(store.paths.metrics) as metrics:
        metrics.append([{**clock._asdict(), "roll/return_mean": float("nan")}])
    arrays = {"w": np.zeros(2, np.float32)}
    save_checkpoint(store.paths, step=256, policy=arrays, state=arrays, info={}, kinds={"best"}, keep=1)
    store.note(score=float("nan"))
    return store


def finish(store: RunStore) -> None:
    store.end("finished", "budget", Clock(1, 32, 256, 2, 0.5))
    store.close()


def call(*arguments: str) -> Result:
    result: Any = CliRunner().invoke(app, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result  # type: ignore[no-any-return]


def strict(text: str) -> Any:
    return json.loads(text, parse_constant=pytest.fail)


def test_no_runs_is_no_error(root: Path) -> None:
    assert "no runs" in call("list").output
    assert strict(call("list", "--json").output) == []
    assert not root.exists()


def test_list_tells_running_from_finished_and_crashed(root: Path) -> None:
    finish(make(root, "one"))
    make(root, "two").close()
    running = make(root, "three")
    told = {entry["id"]: entry["status"] for entry in strict(call("list", "--json").output)}
    assert told == {"three": "running", "two": "crashed", "one": "finished"}
    assert [entry["id"] for entry in strict(call("--last", "1", "--json").output)] == ["three"]
    table = call("list", "--last", "2").output
    assert "three" in table
    assert "one" not in table
    running.close()


def test_show_has_everything(root: Path) -> None:
    finish(make(root, "one"))
    facts = strict(call("show", "@last", "--json").output)
    assert facts["run"]["id"] == "one"
    assert facts["status"]["stop_reason"] == "budget"
    assert facts["checkpoints"] == {"last": "256", "best": "256", "periodic": [], "clock": "env_steps", "steps": [256]}
    assert facts["metrics"]["vec_steps"] == 32
    assert "stop_reason: budget" in call("show", "one").output


def test_export_writes_the_stored_rows(root: Path, tmp_path: Path) -> None:
    finish(make(root, "one"))
    assert "1 rows" in call("export", "one", "--csv", "out.csv").output
    with (tmp_path / "out.csv").open(newline="") as file:
        (line,) = csv.DictReader(file)
    assert (line["env_steps"], line["roll/return_mean"]) == ("256", "nan")
    with pytest.raises(UserError, match="cannot write"):
        call("export", "one", "--csv", "no/such/folder/out.csv")


def test_tags_are_added_and_removed(root: Path) -> None:
    finish(make(root, "one"))
    call("tag", "one", "baseline")
    assert "baseline, good" in call("tag", "one", "good").output
    assert strict(call("list", "--json").output)[0]["tags"] == ["baseline", "good"]
    assert "one: good" in call("tag", "one", "baseline", "--remove").output
    with pytest.raises(UserError, match="not valid"):
        call("tag", "one", "a/b")


def test_rm_removes_only_idle_runs_of_the_folder(root: Path, tmp_path: Path) -> None:
    running = make(root, "busy")
    with pytest.raises(UserError, match=f"in use by pid {os.getpid()}"):
        call("rm", "busy")
    finish(running)
    finish(make(tmp_path / "elsewhere", "theirs"))
    with pytest.raises(UserError, match="not in the runs folder"):
        call("rm", "elsewhere/theirs")
    call("rm", "busy")
    assert strict(call("list", "--json").output) == []


def test_reindex_counts_the_runs(root: Path) -> None:
    finish(make(root, "one"))
    (root / "registry.json").write_text("broken")
    result = call("list", "--json")
    assert strict(result.stdout)[0]["id"] == "one"
    assert "rebuilt" in result.stderr
    assert "1 runs" in call("reindex").output


def test_a_hostile_run_cannot_speak_to_the_terminal(root: Path) -> None:
    store = make(root, "evil")
    store.write_manifest({"recipe": "\x1b]0;pwned\x07\x1b[31m[bold red]name", "env": "x\r\n", "note": "\x1b[2J"})
    finish(store)
    for command in (["list"], ["show", "evil"]):
        output = call(*command).output
        assert "\x1b" not in output
        assert "[bold red]name" in output


def test_a_run_without_metrics_says_so(root: Path) -> None:
    store = make(root, "one")
    finish(store)
    store.paths.metrics.unlink()
    assert strict(call("show", "one", "--json").output)["metrics"] == {}
    with pytest.raises(RunError, match="no metrics"):
        call("export", "one", "--csv", "x.csv")


def test_every_command_shows_an_example() -> None:
    for name in ("list", "show", "export", "tag", "rm", "reindex"):
        assert f"gymlab runs {name}" in call(name, "--help").output


def test_importing_the_commands_is_light() -> None:
    code = (
        "import sys, gymlab.cli.runs; print({'jax', 'gymnasium', 'numpy', 'sqlite3', 'gymlab.runs'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
