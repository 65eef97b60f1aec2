"""Worker process of a pool: trains one run after another and keeps its imports and compiled programs in between.

Started by `executors.pool` as `python -m gymlab.campaigns.executors.pool_worker`; never forked. Its numbers are those
of a run by itself: how many threads JAX computes with changes rounding, so it starts with all cores and is pinned to
one after.
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

from gymlab.campaigns.executors.protocol import RunEnd, RunReport, encode_report
from gymlab.campaigns.run_spec import RunSpec
from gymlab.process.parent_watch import ignore_signals, own_stdout

if TYPE_CHECKING:
    from gymlab.session.compile_cache import CompileCache
    from gymlab.session.result import Result

ORPHAN_SECONDS = 4.0  # for a clean end once the parent has exited


@dataclass
class _Requests:
    """What the parent has sent; a thread reads it."""

    specs: queue.Queue[RunSpec | None]
    stopped: bool = False
    busy: Callable[[], bool] = lambda: False  # a run is being trained, and no signal has come yet


def main() -> None:
    ignore_signals("SIGINT")  # Ctrl-C reaches us by the parent, and only while we train
    out = own_stdout()
    core = json.loads(sys.stdin.readline())["core"]
    requests = _Requests(queue.Queue())
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    sending = threading.Lock()

    def send(report: RunReport) -> None:
        with sending, suppress(OSError):  # the parent has exited: the run still ends with a checkpoint
            print(encode_report(report), file=out, flush=True)

    cores = _warm_up(core)
    from gymlab.session.compile_cache import CompileCache

    compile_cache = CompileCache()
    while (spec := requests.specs.get()) is not None:
        send(_train(spec, compile_cache, requests, cores, send))
    _exit_at_once()


def _listen(requests: _Requests) -> None:
    """Queue the specs on stdin; a stop, or the end of stdin, stops the run under way and all after it."""
    for line in sys.stdin:
        if line.startswith('{"stop"'):
            _stop(requests, json.loads(line)["stop"])
        else:
            requests.specs.put(RunSpec.decode(line))
    requests.specs.put(None)
    _stop(requests, signal.SIGTERM)
    time.sleep(ORPHAN_SECONDS)  # an idle worker has exited by then
    os._exit(143)


def _stop(requests: _Requests, number: int) -> None:
    requests.stopped = True
    if requests.busy():
        os.kill(os.getpid(), number)


def _warm_up(core: int | None) -> tuple[int, ...] | None:
    """Import what training needs, let JAX start its threads, then pin all threads to one core; all usable cores."""
    import jax

    from gymlab.campaigns.executors import in_process  # noqa: F401 - imported now because that takes long
    from gymlab.recipes.project_settings import cache_folder
    from gymlab.runs.platform import usable_cores
    from gymlab.session.jax_setup import set_up_jax

    set_up_jax(cache_folder())
    jax.devices()
    usable_cores()  # cached before pinning: a run's fingerprint has the number of cores that JAX computes with
    if not hasattr(os, "sched_setaffinity"):
        return None
    cores = tuple(sorted(os.sched_getaffinity(0)))
    if core is not None:
        for thread in os.listdir("/proc/self/task"):
            with suppress(ProcessLookupError):  # it has ended since
                os.sched_setaffinity(int(thread), {core})
    return cores


def _train(
    spec: RunSpec,
    compile_cache: CompileCache,
    requests: _Requests,
    cores: tuple[int, ...] | None,
    send: Callable[[RunReport], None],
) -> RunEnd:
    from gymlab.campaigns.executors.in_process import run_end, train_spec
    from gymlab.campaigns.executors.reporter import Reporter
    from gymlab.session.build import build
    from gymlab.session.signals import Interrupted, guard_process

    def train() -> Result:
        with guard_process() as interrupts:
            requests.busy = lambda: interrupts.received is None
            try:
                if requests.stopped:  # checked after `busy` is set: no stop is missed in between
                    raise Interrupted
                return train_spec(spec, Reporter(spec.number, send), partial(build, compile_cache=compile_cache), cores)
            finally:
                requests.busy = lambda: False

    return run_end(spec, train)


def _exit_at_once() -> None:
    """Without tearing JAX down, which takes long: nothing is left to save."""
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
