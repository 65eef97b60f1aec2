"""Process pool of warm workers: specs go in at any time, reports come out as they are made.

One worker per core, each pinned to its own. Where a worker dies, only its run fails, and another worker is started.
"""

from __future__ import annotations

import json
import os
import queue
import signal
from collections import deque
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Self

from gymlab.campaigns.executors.protocol import RunEnd, RunFailed, RunNotBegun, RunReport, decode_report
from gymlab.campaigns.run_spec import RunSpec
from gymlab.process.child import Child, start_worker

POLL_SECONDS = 0.1  # how late a signal may be noticed
END_SECONDS = 5.0  # for runs under way, where the parent itself fails
MOST_DEATHS = 3  # of one worker in a row, without a report in between
_Line = tuple[int, str | None]  # which child, and a line of its stdout; None is its end


class Pool:
    """An `Executor`: one run per worker at a time."""

    def __init__(self, workers: int | None = None, environ: Mapping[str, str] | None = None) -> None:
        cores = usable()
        self._cores = [cores[i % len(cores)] if cores else None for i in range(workers or max(1, len(cores)))]
        self._environ = environ
        self._lines: queue.Queue[_Line] = queue.Queue()
        self._started = 0
        self._children: dict[int, Child] = {}  # in the order they were started in
        self._workers: dict[int, int] = {}  # the index of the worker that a child is
        self._under_way: dict[int, RunSpec] = {}  # by child
        self._waiting: deque[RunSpec] = deque()
        self._deaths = [0] * len(self._cores)  # by worker
        self._stop_signal: int | None = None
        self._sent_stop = False

    @property
    def size(self) -> int:
        return len(self._cores)

    @property
    def description(self) -> str:
        return f"{self.size} process{'es' * (self.size > 1)}"

    def warm_up(self) -> None:
        """Start all workers now, so that they are ready when the first tasks come."""
        while len(self._children) < self.size:
            self._start()

    def submit(self, spec: RunSpec) -> None:
        self._waiting.append(spec)

    def stop(self, reason: str) -> None:
        """Runs under way end with a checkpoint, those waiting are not begun. May be called by a signal handler."""
        self._stop_signal = signal.SIGINT if signal.SIGINT.name in reason else signal.SIGTERM

    def reports(self) -> Iterator[RunReport]:
        """Everything the workers report, until every submitted run has had its last report."""
        while self._waiting or self._under_way:
            if self._stop_signal is not None:
                yield from self._stopping()
            self._assign()
            try:
                number, line = self._lines.get(timeout=POLL_SECONDS)
            except queue.Empty:
                continue
            yield from self._died(number) if line is None else self._received(number, line)

    def _assign(self) -> None:
        idle = [number for number in self._children if number not in self._under_way]
        while self._waiting and (idle or len(self._children) < len(self._cores)):
            number = idle.pop() if idle else self._start()
            spec = self._waiting.popleft()
            self._under_way[number] = spec
            self._children[number].send(spec.encode())

    def _start(self) -> int:
        worker = next(index for index in range(len(self._cores)) if index not in self._workers.values())
        self._started += 1
        number = self._started
        child = start_worker(
            "gymlab.campaigns.executors.pool_worker",
            lambda line: self._lines.put((number, line)),
            environ=self._environ,
        )
        child.send(json.dumps({"core": self._cores[worker]}))
        self._children[number] = child
        self._workers[number] = worker
        return number

    def _received(self, number: int, line: str) -> Iterator[RunReport]:
        report = decode_report(line)
        self._deaths[self._workers[number]] = 0
        if isinstance(report, RunEnd):
            self._under_way.pop(number, None)
        yield report

    def _died(self, number: int) -> Iterator[RunReport]:
        child = self._children.pop(number)
        worker = self._workers.pop(number)
        spec = self._under_way.pop(number, None)
        message = child.stderr_tail()
        child.end(0)
        self._deaths[worker] += 1
        if spec is not None:
            yield RunFailed(spec.number, f"its process died ({message})")
        if self._deaths[worker] >= MOST_DEATHS:  # the cause is not the run: starting more would not help
            while self._waiting:
                yield RunFailed(self._waiting.popleft().number, f"worker processes keep dying ({message})", begun=False)

    def _stopping(self) -> Iterator[RunReport]:
        while self._waiting:
            yield RunNotBegun(self._waiting.popleft().number)
        if not self._sent_stop:
            self._sent_stop = True
            for child in self._children.values():
                child.send(json.dumps({"stop": int(self._stop_signal or signal.SIGTERM)}))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in self._children.values():
            child.close_stdin()
        for number, child in self._children.items():
            child.end(END_SECONDS if number in self._under_way else 0.0)  # an idle one has nothing to save


def usable() -> list[int]:
    """The cores this process may run on, by number; [] where the system does not say."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    return sorted(affinity(0)) if affinity is not None else []
