import pytest

from gymlab.queue.store import Queue
from tests.queue.waiting import processes_of, until


@pytest.fixture
def queue(folder):
    queue = Queue(folder / "runs")
    yield queue
    for job in queue.jobs():
        if job.open:
            queue.cancel(job.id)
    until(lambda: not processes_of(queue.root), what="the end of all processes")
