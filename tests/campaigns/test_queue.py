"""One queue: order, limits that wait, keys, cancelling, and kill -9 of the runner and of jobs."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from gymlab.campaigns.queue.jobs import Job, JobRequest, QueueLimits, state_after_exit
from gymlab.campaigns.queue.runner import DESCRIPTOR, PARENT, QueueRunner, ensure_runner
from gymlab.core.errors import RunError, UserError
from tests.campaigns.queue_jobs import kill, logged, small_job, states, until
from tests.running import environment

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the queue needs Linux or macOS")


def job(**fields):
    return Job(**{"title": "t", "command": ("x",), "cwd": ".", "id": "1", "attempts": 1, **fields})


def test_a_limit_on_jobs_and_one_on_steps_make_a_job_wait_and_one_too_large_runs_alone():
    small, large = job(steps=60), job(steps=500)
    assert QueueLimits(2).admits(small, [small])
    assert not QueueLimits(1).admits(small, [small])
    assert not QueueLimits(4, 100).admits(small, [small])
    assert QueueLimits(4, 120).admits(small, [small])
    assert QueueLimits(4, 100).admits(large, [])
    assert not QueueLimits(4, 100).admits(small, [large])


def test_how_a_job_ended_is_judged_by_its_code_and_where_it_was_killed_by_its_run():
    train = {"run_id": "r", "fresh": True, "retries": 2}
    assert state_after_exit(job(**train), 0, "finished")[0] == "done"
    assert state_after_exit(job(**train), 1, "failed")[0] == "failed"
    assert state_after_exit(job(**train), 143, "stopped")[0] == "stopped"
    assert state_after_exit(job(**train, cancelled=True), 143, "stopped")[0] == "cancelled"
    assert state_after_exit(job(**train), -9, "crashed")[0] == "waiting"
    assert state_after_exit(job(**train), None, None)[0] == "waiting"
    assert state_after_exit(job(**train), None, "finished")[0] == "done"
    assert state_after_exit(job(**{**train, "attempts": 3}), -9, "crashed") == (
        "failed",
        "killed in each of 3 attempts",
    )
    # A run that had finished before it was resumed with a larger budget says nothing of this attempt.
    assert state_after_exit(job(run_id="r"), -9, "finished")[0] == "waiting"


def test_jobs_run_in_their_order_one_at_a_time_where_that_is_the_limit_and_end_with_a_summary(queue, folder):
    queue.limit(1, None)
    queue.add(
        *(small_job(folder, name) for name in "abc"), JobRequest("bad", ("/bin/false",), str(folder), program=True)
    )
    lines = QueueRunner(queue).run()
    assert logged(folder) == [f"{word} {name}" for name in "abc" for word in ("begin", "end")]
    assert lines[0] == "4 jobs: 3 done, 1 failed"
    assert queue.summary.read_text().splitlines()[2] == lines[0]
    assert queue.runner() is None


def test_what_does_not_fit_the_limit_on_steps_waits_and_nobody_overtakes_it(queue, folder):
    queue.limit(4, 100)
    queue.add(
        small_job(folder, "a", "a-may-end", steps=60), small_job(folder, "b", steps=60), small_job(folder, "c", steps=1)
    )
    ensure_runner(queue)
    until(lambda: "begin a" in logged(folder))
    assert states(queue) == {"a": "running", "b": "waiting", "c": "waiting"}
    (folder / "a-may-end").touch()
    until(lambda: all(state == "done" for state in states(queue).values()))
    assert logged(folder)[:2] == ["begin a", "end a"]


def test_a_key_puts_a_job_in_once(queue, folder):
    (first,) = queue.add(small_job(folder, "a", key="k"))
    (again,) = queue.add(small_job(folder, "b", key="k"))
    assert (again.id, again.title) == (first.id, "a")
    assert len(queue.jobs()) == 1


def test_many_processes_may_add_at_once_and_nothing_is_lost(queue, folder):
    threads = [threading.Thread(target=queue.add, args=(small_job(folder, str(i)),)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(int(job.id) for job in queue.jobs()) == list(range(1, 21))


def test_a_killed_runner_leaves_its_jobs_alone_and_the_next_one_finds_them(queue, folder):
    queue.limit(2, None)
    queue.add(*(small_job(folder, name, "go") for name in "abc"))
    ensure_runner(queue)
    until(lambda: {"begin a", "begin b"} <= {*logged(folder)})
    kill(queue.runner().pid)
    until(lambda: queue.runner() is None)
    assert states(queue) == {"a": "running", "b": "running", "c": "waiting"}
    ensure_runner(queue)
    (folder / "go").touch()
    until(lambda: set(states(queue).values()) == {"done"})
    assert sorted(logged(folder)) == sorted(f"{word} {name}" for name in "abc" for word in ("begin", "end"))
    assert [job.attempts for job in queue.jobs()] == [1, 1, 1]


def test_a_job_whose_runner_was_killed_before_it_was_written_down_has_not_begun(queue, folder):
    (job,) = queue.add(small_job(folder, "a", "go"))
    nobody = {DESCRIPTOR: "0", PARENT: "0"}
    program = [sys.executable, "-m", "gymlab.campaigns.queue.job_process", str(queue.root), job.id]
    assert subprocess.run(program, env=environment(**nobody), check=False, timeout=60).returncode == 1
    until(lambda: "begin a" in logged(folder))  # by the runner that it has started instead
    (folder / "go").touch()
    until(lambda: states(queue) == {"a": "done"})
    assert logged(folder) == ["begin a", "end a"]
    assert queue.find(job.id).attempts == 1


def test_a_job_that_ends_while_no_runner_lives_starts_one_and_its_exit_code_is_known(queue, folder):
    queue.add(small_job(folder, "a", "go"), small_job(folder, "b"))
    queue.limit(1, None)
    ensure_runner(queue)
    until(lambda: "begin a" in logged(folder))
    kill(queue.runner().pid)
    until(lambda: queue.runner() is None)
    (folder / "go").touch()
    until(lambda: set(states(queue).values()) == {"done"})
    assert [job.exit_code for job in queue.jobs()] == [0, 0]


def test_a_killed_job_is_begun_again_as_often_as_it_may_and_no_more(queue, folder):
    queue.add(small_job(folder, "a", "never", retries=1))
    ensure_runner(queue)
    for attempt in (1, 2):
        until(lambda attempt=attempt: logged(folder).count("begin a") == attempt)
        os.killpg(queue.jobs()[0].pid, signal.SIGKILL)  # the job's process and its program
    until(lambda: states(queue) == {"a": "failed"})
    assert queue.jobs()[0].message.startswith("killed in each of 2 attempts")
    assert logged(folder) == ["begin a", "begin a"]


def test_cancelling_takes_a_waiting_job_out_and_ends_a_running_one(queue, folder):
    queue.limit(1, None)
    queue.add(small_job(folder, "a", "never"), small_job(folder, "b"))
    ensure_runner(queue)
    until(lambda: "begin a" in logged(folder))
    queue.cancel("2")
    queue.cancel("1")
    until(lambda: queue.runner() is None)
    assert states(queue) == {"a": "cancelled", "b": "cancelled"}
    assert logged(folder) == ["begin a"]


def test_a_job_added_as_the_runner_ends_is_not_forgotten(queue, folder):
    for name in "abcd":
        queue.add(small_job(folder, name))
        ensure_runner(queue)
        until(lambda name=name: f"end {name}" in logged(folder))  # the runner is about to end, or has
    until(lambda: set(states(queue).values()) == {"done"})


def test_a_program_that_takes_too_long_or_is_not_there_is_told(queue, folder):
    queue.add(
        small_job(folder, "slow", "never", minutes=0.3 / 60),
        JobRequest("gone", ("/no/such/program",), str(folder), program=True, retries=0),
        JobRequest("lost", ("true",), str(folder / "no-folder"), program=True, retries=0),
    )
    QueueRunner(queue).run()
    slow, gone, lost = queue.jobs()
    assert (slow.exit_code, gone.exit_code, lost.state) == (124, 127, "failed")
    assert "cannot start '/no/such/program'" in gone.message
    assert "no-folder" in lost.message


def test_a_damaged_queue_and_an_unknown_job_are_told_in_one_line(queue, folder):
    with pytest.raises(UserError, match="the queue is empty"):
        queue.find("7")
    queue.add(small_job(folder, "a", run_id="my-run"))
    with pytest.raises(UserError, match="did you mean 'my-run'"):
        queue.find("my-runn")
    queue.cancel("1")
    data = json.loads(queue.path.read_text())
    queue.path.write_text(json.dumps({**data, "jobs": [{"nonsense": 1}]}))
    with pytest.raises(RunError, match="damaged"):
        queue.read()
    queue.path.write_text(json.dumps(data))
