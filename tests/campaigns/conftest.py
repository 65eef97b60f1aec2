"""A queue that ends with its test, and warm workers shared by all tests of sweeps."""

import pytest

from gymlab.campaigns.executors.pool import Pool
from gymlab.campaigns.queue.store import Queue
from tests.campaigns.queue_jobs import processes_of, until


@pytest.fixture
def queue(folder):
    queue = Queue(folder / "runs")
    yield queue
    for job in queue.jobs():
        if job.open:
            queue.cancel(job.id)
    until(lambda: not processes_of(queue.root), what="the end of all processes")


@pytest.fixture(scope="session")
def pools():
    with Pool(1) as one, Pool(2) as two:
        yield {1: one, 2: two}
