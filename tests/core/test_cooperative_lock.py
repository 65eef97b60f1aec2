"""Cooperative lock: one thread runs at a time and releases the lock while it blocks."""

import threading

from gymlab.core.cooperative_lock import hold_lock, yield_lock
from gymlab.runs import platform


def test_a_second_thread_runs_only_while_the_holder_yields_the_lock():
    lock, order, waits = threading.Lock(), [], threading.Event()

    def other():
        waits.set()
        with hold_lock(lock):
            order.append("other")

    with hold_lock(lock):
        thread = threading.Thread(target=other)
        thread.start()
        waits.wait(10)
        order.append("first")
        with yield_lock():
            thread.join(10)
        order.append("first again")
    assert order == ["first", "other", "first again"]


def test_yield_lock_does_nothing_in_a_thread_without_a_cooperative_lock():
    """It releases only the lock of `hold_lock`: no lock that is held otherwise, and none that was released before."""
    lock = threading.Lock()
    with hold_lock(lock):
        pass
    with lock, yield_lock():
        assert lock.locked()


def test_two_threads_that_wait_for_a_file_lock_do_not_deadlock(tmp_path):
    """The holder of the file lock gets the cooperative lock back although the other thread waits for the file."""
    lock, path, done = threading.Lock(), tmp_path / "lock", []

    def work():
        with hold_lock(lock):
            fd = platform.open_lock(path)
            platform.wait_lock(fd)
            with yield_lock():
                threading.Event().wait(0.2)
            platform.unlock(fd)
            done.append(1)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert done == [1, 1]
