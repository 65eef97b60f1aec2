"""A run as data, and its state as its folder says it."""

import pytest

from gymlab.campaigns.executors.protocol import RunBegan, RunFailed, RunFinished, decode_report, encode_report
from gymlab.campaigns.run_spec import RunSpec, RunState, read_run_state
from gymlab.runs import files
from gymlab.runs.locks import RunLock
from gymlab.runs.paths import RunPaths

pytestmark = pytest.mark.fast


def test_a_spec_and_a_report_survive_a_pipe():
    spec = RunSpec(3, "runs", "r", 7, recipe="env: {id: X}", overrides=("a=1",), tags=("t", "u"), pause_at=100)
    assert RunSpec.decode(spec.encode()) == spec
    for report in (RunBegan(3, "line", ("note",)), RunFailed(3, "no", True, False), RunFinished(3, {"status": "x"})):
        assert decode_report(encode_report(report)) == report


@pytest.mark.parametrize("status", ["finished", "failed", "stopped", "crashed"])
def test_the_state_of_a_run_is_read_from_its_folder(tmp_path, status):
    paths = RunPaths(tmp_path / "r")
    assert read_run_state(paths) is RunState.NOT_BEGUN
    paths.root.mkdir()
    files.write_json(paths.manifest, {})
    files.write_json(paths.status, {"status": status})
    assert read_run_state(paths) is RunState(status)
    assert RunState(status).over == (status in ("finished", "failed"))


def test_a_run_is_running_only_while_a_process_holds_its_lock(tmp_path):
    paths = RunPaths(tmp_path / "r")
    paths.root.mkdir()
    files.write_json(paths.manifest, {})
    files.write_json(paths.status, {"status": "running"})
    assert read_run_state(paths) is RunState.CRASHED
    lock = RunLock(paths.lock)
    lock.acquire()
    try:
        assert read_run_state(paths) is RunState.RUNNING
    finally:
        lock.release()
