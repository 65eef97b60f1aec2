"""Follower: a thread that reads new rows of the run's store and passes them to a sink.

The store is the queue: nothing is dropped and nothing accumulates in memory. After an outage of the sink or a kill of
the run it continues, as always, from the last step that the sink holds.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from array import array
from collections import deque
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path

from gymlab.core.clock import Clock
from gymlab.core.errors import GymlabError
from gymlab.runs.metrics_reader import StoredRow, rows_after, update_at
from gymlab.runs.paths import RunPaths
from gymlab.trackers.sink import Sink, read_info

log = logging.getLogger(__name__)
POLL_SECONDS = 0.5
RETRY_SECONDS = 5.0  # after the first failure, then twice as long each time
LONGEST_RETRY_SECONDS = 300.0
SENDING_SHARE = 0.7  # of the time for ending; the rest is for closing
BATCH = 256  # rows between two checks of the time
REMEMBERED = 4096  # rows whose values are kept, to know what came late or was replaced
EVERYTHING = 2**62

Extra = Callable[[], bool]  # sends something other than a row; False: not ready yet


class Follower(threading.Thread):
    """One copy of one run. Its methods do not block, whatever the sink does; `wait` takes at most the time of `end`."""

    def __init__(self, sink: Sink, paths: RunPaths) -> None:
        super().__init__(name=f"gymlab-{sink.name}", daemon=True)
        self.sink = sink
        self._paths = paths
        self._at = Clock()
        self._upto = 0
        self._extras: deque[Extra] = deque()
        self._best: tuple[Path, tuple[str, ...]] | None = None
        self._ending = threading.Event()
        self._reading = threading.Lock()
        self._paused = self._open = self._warned = self._failed = False
        self._enough = self._deadline = 0.0
        self._retry_at = 0.0
        self._retry = RETRY_SECONDS
        self._last = self._held = 0  # update and step
        self._sent: dict[int, tuple[tuple[str, ...], array[float]]] = {}  # names and values by update
        self._late: dict[int, dict[str, float]] = {}  # what is about to be added to or replaced in a row
        self._amending = threading.Lock()

    @property
    def down(self) -> bool:
        """Whether the sink has failed and not recovered."""
        return self._warned and not self._open

    def begin(self, at: Clock) -> None:
        """The run starts or resumes at this clock. Later rows in the store are about to be deleted."""
        self._at = at
        self._upto = at.updates
        self.start()

    def resume(self) -> None:
        """The later rows are deleted: all rows may be sent."""
        self._upto = EVERYTHING

    def amend(self, update: int, values: Mapping[str, float]) -> None:
        """Values were measured, or measured again, for a row that may have been sent already."""
        with self._amending:
            if update not in self._late:
                self._extras.append(partial(self._send_late, update))
            self._late.setdefault(update, {}).update(values)

    def media(self, path: Path, clock: Clock) -> None:
        """A clip of the policy as it was at `clock`."""
        self._extras.append(partial(self._send_media, path, clock.vec_steps))

    def artifact(self, path: Path, aliases: tuple[str, ...]) -> None:
        """A checkpoint; only the newest is worth sending."""
        self._best = (path, aliases)

    def pause(self) -> None:
        """Leave the store alone until the end, so that its writer can close it."""
        with self._reading:
            self._paused = True

    def end(self, seconds: float, *, failed: bool) -> None:
        """The run is over: send the rest and close, in this time."""
        self._failed = failed
        now = time.monotonic()
        self._enough = now + SENDING_SHARE * seconds
        self._deadline = now + seconds
        self._upto = EVERYTHING
        self._paused = False
        self._ending.set()

    def wait(self) -> None:
        """Until the copy is closed or time is up."""
        if self.ident is None:
            return
        self.join(max(0.0, self._deadline - time.monotonic()))
        if self.is_alive():
            self.sink.abandon()
            self._warn("it did not finish in time")

    def run(self) -> None:
        ending = False
        while not ending:
            ending = self._ending.wait(POLL_SECONDS)
            if ending or (not self._paused and time.monotonic() >= self._retry_at):
                self._guarded(self._catch_up)
        if self._open:
            left = max(0.1, self._deadline - time.monotonic())
            self._guarded(lambda: self.sink.finish(left, failed=self._failed))

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # any: a failing tracker must not end the run
            self._open = False
            self._retry_at = time.monotonic() + self._retry
            self._retry = min(2 * self._retry, LONGEST_RETRY_SECONDS)
            self._warn(str(error) if isinstance(error, GymlabError) else f"{type(error).__name__}: {error}")

    def _warn(self, message: str) -> None:
        if not self._warned:
            log.warning("%s: %s; training is not affected, every row is in metrics.db", self.sink.name, message)
        self._warned = True

    def _catch_up(self) -> None:
        if not self._open:
            self._held = self.sink.start(read_info(self._paths), self._at)
            self._last = update_at(self._paths.metrics, self._held)
            self._open = True
        while self._send_rows():
            pass
        self._send_extras()
        self._send_best()

    def _send_extras(self) -> None:
        for _ in range(len(self._extras)):
            if self._out_of_time():
                return
            if self._extras[0]() or self._ending.is_set():
                self.sink.flush()
                self._extras.popleft()
            else:
                self._extras.rotate(-1)

    def _send_best(self) -> None:
        best = self._best
        if best is None or self._out_of_time():
            return
        if best[0].is_dir():  # else pruned, and a better one is coming
            self.sink.artifact(*best)
            self.sink.flush()
        if self._best is best:
            self._best = None

    def _out_of_time(self) -> bool:
        return self._ending.is_set() and time.monotonic() > self._enough

    def _send_rows(self) -> bool:
        """Some rows more; whether there may be others."""
        rows = self._rows(self._last, self._upto)
        sent = []
        for row in rows:
            if self._out_of_time():
                break
            if row.clock.vec_steps > self._held:
                self.sink.row(*row)
            sent.append(row)
        self.sink.flush()
        for row in sent:
            self._last = row.clock.updates
            self._sent[self._last] = (_shared(tuple(row.metrics)), array("d", row.metrics.values()))
            if len(self._sent) > REMEMBERED:
                del self._sent[next(iter(self._sent))]
        return len(sent) == BATCH

    def _rows(self, after: int, upto: int) -> list[StoredRow]:
        with self._reading:
            if self._paused:
                return []
            return rows_after(self._paths.metrics, after, upto, BATCH, settled=not self._ending.is_set())

    def _send_late(self, update: int) -> bool:
        """Send the values of a row that the sink lacks or has otherwise, once the store has them."""
        ending = self._ending.is_set()
        if update > self._last and not ending:
            return False  # the whole row is sent first
        with self._amending:
            late = dict(self._late[update])
        for clock, metrics in self._rows(update - 1, update):
            stored = all(_same(metrics.get(name), value) for name, value in late.items())
            if not stored and not ending:
                return False
            sent = dict(zip(*self._sent.get(update, ((), ())), strict=True))
            values = {
                name: metrics[name] for name in late if name in metrics and not _same(sent.get(name), metrics[name])
            }
            held = self._at.vec_steps < clock.vec_steps <= self._held  # from before the run was resumed
            if values and not held:
                self.sink.row(clock, values)
            sent.update(values)
            self._sent[update] = (_shared(tuple(sent)), array("d", sent.values()))
            with self._amending:
                if self._late[update] != late:
                    return False  # measured once more meanwhile
                del self._late[update]
            return True
        return False

    def _send_media(self, path: Path, step: int) -> bool:
        if path.is_file():
            self.sink.media(path, step)
        return True


def _same(one: float | None, other: float | None) -> bool:
    """Whether two values are equal; NaN equals NaN."""
    return one == other or (one is not None and other is not None and math.isnan(one) and math.isnan(other))


@lru_cache(64)
def _shared(names: tuple[str, ...]) -> tuple[str, ...]:
    """The same object for equal names, which most rows have."""
    return names
