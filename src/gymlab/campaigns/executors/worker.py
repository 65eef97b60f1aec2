"""A warm worker: trains one member after another in one process, which keeps its imports and what it has compiled.

Started by `many.pool` as `python -m gymlab.campaigns.executors.worker`; never forked. Its numbers are those of a run by
itself: how many threads JAX computes with changes rounding, so it starts with all cores and is pinned to one after.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from gymlab.campaigns.executors.protocol import Report, Task, report_line
from gymlab.process.parent_watch import own_stdout

if TYPE_CHECKING:
    from gymlab.session.compile_cache import Kept
    from gymlab.session.result import Result

ORPHAN_SECONDS = 4.0  # for a clean end once the parent is gone


@dataclass
class _Orders:
    """What the parent has said, as a thread heard it."""

    tasks: queue.Queue[Task | None]
    stopped: bool = False
    busy: Callable[[], bool] = lambda: False  # a member is being trained, and no signal has come yet


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a key pressed at the terminal is for the member under way, if any
    out = own_stdout()
    core = json.loads(sys.stdin.readline())["core"]
    orders = _Orders(queue.Queue())
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    said = threading.Lock()

    def tell(report: Report) -> None:
        with said, suppress(OSError):  # where the parent is gone, the member still ends in order
            print(report_line(report), file=out, flush=True)

    cores = _warm_up(core)
    from gymlab.session.compile_cache import Kept

    kept = Kept()
    while (task := orders.tasks.get()) is not None:
        tell(_train(task, kept, orders, cores, tell))
    _leave()


def _listen(orders: _Orders) -> None:
    """Tasks are queued; a stop, or the end of the line, ends the member under way in order and all after it."""
    for line in sys.stdin:
        if line.startswith('{"stop"'):
            _stop(orders, json.loads(line)["stop"])
        else:
            orders.tasks.put(Task.read(line))
    orders.tasks.put(None)
    _stop(orders, signal.SIGTERM)
    time.sleep(ORPHAN_SECONDS)  # an idle worker has left by then
    os._exit(143)


def _stop(orders: _Orders, number: int) -> None:
    orders.stopped = True
    if orders.busy():
        os.kill(os.getpid(), number)


def _warm_up(core: int | None) -> tuple[int, ...] | None:
    """Import what training needs and have JAX start its threads; then keep to one core. The cores there are."""
    import jax

    from gymlab.campaigns.executors import members  # noqa: F401 - imported now because that takes its time
    from gymlab.recipes.project_settings import cache_folder
    from gymlab.runs.platform import usable_cores
    from gymlab.session.jax_setup import set_up_jax

    set_up_jax(cache_folder())
    jax.devices()
    usable_cores()  # remembered: the fingerprint of a run tells how many JAX computes with
    if not hasattr(os, "sched_setaffinity"):
        return None
    cores = tuple(sorted(os.sched_getaffinity(0)))
    if core is not None:
        for thread in os.listdir("/proc/self/task"):
            with suppress(ProcessLookupError):  # it has ended since
                os.sched_setaffinity(int(thread), {core})
    return cores


def _train(
    task: Task, kept: Kept, orders: _Orders, cores: tuple[int, ...] | None, tell: Callable[[Report], None]
) -> Report:
    from gymlab.campaigns.executors.members import last_report, session
    from gymlab.campaigns.executors.reporter import Reporter
    from gymlab.session.build import build
    from gymlab.session.signals import Interrupted, guard_process

    def train() -> Result:
        with guard_process() as interrupts:
            orders.busy = lambda: interrupts.received is None
            try:
                if orders.stopped:  # asked after saying that we are busy: no stop falls in between
                    raise Interrupted
                return session(task, Reporter(task.number, tell), partial(build, kept=kept), cores)
            finally:
                orders.busy = lambda: False

    return last_report(task, train)


def _leave() -> None:
    """At once: there is nothing left to be put in order, and tearing JAX down takes its time."""
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
