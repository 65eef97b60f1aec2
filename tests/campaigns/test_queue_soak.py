"""The queue under kill -9 at random: every job is done, in order, and nothing runs twice at once."""

import random
import time

import pytest

from gymlab.campaigns.queue.runner import ensure_runner
from gymlab.campaigns.queue.store import Queue
from tests.campaigns.queue_jobs import kill, logged, processes_of, small_job, states, until


@pytest.mark.slow
def test_thirty_jobs_are_done_though_runner_and_jobs_are_killed_at_random(folder):
    queue, draw = Queue(folder / "runs"), random.Random(7)
    queue.limit(2, None)
    queue.add(*(small_job(folder, f"{i:02}", f"gate-{i:02}", retries=50) for i in range(30)))
    ensure_runner(queue)
    killed = 0
    for i in range(30):
        until(lambda i=i: f"begin {i:02}" in logged(folder), what=f"job {i}")
        if i % 3 == 0 and (runner := queue.runner()) is not None:
            kill(runner.pid)
            killed += 1
        if i % 4 == 1:
            victims = [job for job in queue.jobs() if job.state == "running" and job.pid]
            kill(draw.choice(victims).pid)  # the process of the job, not its program
            killed += 1
        time.sleep(draw.random() * 0.3)
        (folder / f"gate-{i:02}").touch()
        ensure_runner(queue)
    until(lambda: ensure_runner(queue) or not any(job.open for job in queue.jobs()), seconds=120)
    assert killed >= 15
    assert set(states(queue).values()) == {"done"}
    begun = [job.started for job in queue.jobs()]
    assert begun == sorted(begun)
    assert {line for line in logged(folder) if line.startswith("end")} == {f"end {i:02}" for i in range(30)}
    until(lambda: not processes_of(queue.root))
