"""A pool of warm workers: tasks go in at any time, reports come out as they are made.

One worker per core, each pinned to its own. A worker that dies takes only its member with it: another is started.
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

from gymlab.campaigns.executors.protocol import ENDS, Failed, NotBegun, Report, Task, read_report
from gymlab.process.child import Child, start_worker

POLL_SECONDS = 0.1  # how late a signal may be noticed
END_SECONDS = 5.0  # for members under way, where the parent itself fails
MOST_DEATHS = 3  # of one worker in a row, without a report in between
_Heard = tuple[int, str | None]  # which child, and what it said; None is its end


class Pool:
    """`submit` tasks, then go through `reports` until none is left; more may be submitted on the way."""

    def __init__(self, workers: int | None = None, environ: Mapping[str, str] | None = None) -> None:
        cores = usable()
        self._cores = [cores[i % len(cores)] if cores else None for i in range(workers or max(1, len(cores)))]
        self._environ = environ
        self._heard: queue.Queue[_Heard] = queue.Queue()
        self._started = 0
        self._children: dict[int, Child] = {}  # in the order they were started in
        self._places: dict[int, int] = {}  # which worker a child is
        self._under_way: dict[int, Task] = {}  # what it does
        self._waiting: deque[Task] = deque()
        self._deaths = [0] * len(self._cores)
        self._stop_signal: int | None = None
        self._told: int | None = None

    @property
    def size(self) -> int:
        return len(self._cores)

    def warm_up(self) -> None:
        """Start all workers now, so that they are ready when the first tasks come."""
        while len(self._children) < self.size:
            self._start()

    def submit(self, task: Task) -> None:
        self._waiting.append(task)

    def stop(self, reason: str) -> None:
        """Members under way end in order, those waiting are not begun. May be called by a signal handler."""
        self._stop_signal = signal.SIGINT if signal.SIGINT.name in reason else signal.SIGTERM

    def reports(self) -> Iterator[Report]:
        """Everything the workers report, until every submitted task has had its last word."""
        while self._waiting or self._under_way:
            if self._stop_signal is not None:
                yield from self._stopping()
            self._hand_out()
            try:
                number, line = self._heard.get(timeout=POLL_SECONDS)
            except queue.Empty:
                continue
            yield from self._died(number) if line is None else self._said(number, line)

    def _hand_out(self) -> None:
        idle = [number for number in self._children if number not in self._under_way]
        while self._waiting and (idle or len(self._children) < len(self._cores)):
            number = idle.pop() if idle else self._start()
            task = self._waiting.popleft()
            self._under_way[number] = task
            self._children[number].send(task.line())

    def _start(self) -> int:
        place = next(place for place in range(len(self._cores)) if place not in self._places.values())
        self._started += 1
        number = self._started
        child = start_worker(
            "gymlab.campaigns.executors.worker", lambda line: self._heard.put((number, line)), environ=self._environ
        )
        child.send(json.dumps({"core": self._cores[place]}))
        self._children[number], self._places[number] = child, place
        return number

    def _said(self, number: int, line: str) -> Iterator[Report]:
        report = read_report(line)
        self._deaths[self._places[number]] = 0
        if isinstance(report, ENDS):
            self._under_way.pop(number, None)
        yield report

    def _died(self, number: int) -> Iterator[Report]:
        child = self._children.pop(number)
        place = self._places.pop(number)
        task = self._under_way.pop(number, None)
        told = child.stderr_tail()
        child.end(0)
        self._deaths[place] += 1
        if task is not None:
            yield Failed(task.number, f"its process died ({told})")
        if self._deaths[place] >= MOST_DEATHS:  # whatever it is, it will not go away
            while self._waiting:
                yield Failed(self._waiting.popleft().number, f"worker processes keep dying ({told})", begun=False)

    def _stopping(self) -> Iterator[Report]:
        while self._waiting:
            yield NotBegun(self._waiting.popleft().number)
        if self._told is None:
            self._told = self._stop_signal
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
            child.end(END_SECONDS if number in self._under_way else 0.0)  # an idle one has nothing to put in order


def usable() -> list[int]:
    """The cores this process may run on, by number; [] where the system does not say."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    return sorted(affinity(0)) if affinity is not None else []
