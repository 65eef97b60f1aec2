"""LogFile: writes `run.log`: the events of a run and gymlab's log messages, with timestamps."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from gymlab.core.errors import GymlabError, UserError, suggestion
from gymlab.core.format import format_count
from gymlab.runs import logs
from gymlab.runs.redact import redact
from gymlab.runs.status import now
from gymlab.training.events import (
    Checkpointed,
    Control,
    Ended,
    Evaluated,
    Event,
    Feature,
    Paused,
    Started,
    Stopping,
    Updated,
)

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
PROGRESS_SECONDS = 60.0  # between two progress lines; one second at level debug


def log_level() -> int:
    """`$GYMLAB_LOG`: debug, info (the default), warning or error."""
    level = os.environ.get("GYMLAB_LOG", "") or "info"
    if level.lower() not in LEVELS:
        raise UserError(f"$GYMLAB_LOG={level!r} is not a level: {suggestion(level, LEVELS)}")
    return LEVELS[level.lower()]


_owners: Counter[int] = Counter()  # number of open logs by training thread


class _Handler(logging.Handler):
    """Writes whole lines, without secrets or escape sequences, to two rotating files of bounded size."""

    def __init__(self, path: Path, level: int) -> None:
        super().__init__(level)
        self._path = path
        self._thread = threading.get_ident()
        self._fd = logs.open_append(path)
        _owners[self._thread] += 1

    def filter(self, record: logging.LogRecord) -> bool:
        """Drop records of threads that train other runs."""
        return record.thread == self._thread or not _owners[record.thread or 0]

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + "".join(traceback.format_exception(*record.exc_info)).rstrip()
        lines = logs.strip_escapes(redact(text)).replace("\n", "\n    ")
        with contextlib.suppress(OSError):  # the log must not end a run; writing the store reports a full disk
            os.write(self._fd, f"{now()} {record.levelname:<7} {lines}\n".encode())
            if os.fstat(self._fd).st_size > logs.MAX_BYTES:
                self._rotate()
        warns = record.levelno >= logging.WARNING and record.name.startswith("gymlab.")
        if warns and not logging.getLogger().handlers and logging.lastResort:
            logging.lastResort.handle(record)  # if logging is not configured, warnings still go to stderr

    def _rotate(self) -> None:
        os.replace(self._path, logs.older_part(self._path))
        new = logs.open_append(self._path)
        os.close(self._fd)
        self._fd = new

    def close(self) -> None:
        super().close()
        _owners[self._thread] -= 1
        with contextlib.suppress(OSError):
            os.close(self._fd)


class LogFile(Feature):
    """Open while the run trains: also records what gymlab logs with Python's `logging` meanwhile."""

    name = "logfile"
    _before = logging.NOTSET  # the logger's level while no LogFile is open

    def __init__(self, path: Path, opening: Sequence[str]) -> None:
        self._path = path
        self._opening = opening
        self._level = log_level()
        self._every = 1.0 if self._level == logging.DEBUG else PROGRESS_SECONDS
        self._progress_at = time.monotonic()
        self._paused: float | None = None  # seconds, while the run is paused

    def __enter__(self) -> Self:
        self._handler = _Handler(self._path, self._level)
        self._logger = logging.getLogger("gymlab")
        if not self._others():
            LogFile._before = self._logger.level
        self._logger.setLevel(min(self._level, self._logger.getEffectiveLevel()))
        self._logger.addHandler(self._handler)
        for line in self._opening:
            self._write(line)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, GymlabError):
            self._write(f"failed: {error}", logging.ERROR)
        elif error is not None:
            self._write("failed:", logging.ERROR, error)
        self._logger.removeHandler(self._handler)
        if not self._others():
            self._logger.setLevel(LogFile._before)
        self._handler.close()

    def _others(self) -> bool:
        return any(isinstance(handler, _Handler) for handler in self._logger.handlers)

    def __call__(self, event: Event, control: Control) -> None:
        at = f"at {format_count(event.clock.env_steps, brief=True)} env_steps"
        if isinstance(event, Started):
            self._write(f"resumed {at}, update {event.clock.updates}" if event.resumed else "started")
        elif isinstance(event, Updated):
            if self._paused is not None:
                self._write(f"continued after a pause of {self._paused:.1f} s")
                self._paused = None
            self._progress(event, at)
        elif isinstance(event, Paused):
            if self._paused is None:
                self._write(f"paused {at}, update {event.clock.updates}")
            self._paused = event.seconds
        elif isinstance(event, Evaluated):
            greedy = event.evaluation.greedy
            sampled = event.evaluation.sampled
            self._write(
                f"{event.kind} evaluation {at}: greedy {greedy.mean:.6g} ± {greedy.std:.4g}, "
                f"sampled {sampled.mean:.6g} ± {sampled.std:.4g} over {event.evaluation.episodes} each"
            )
        elif isinstance(event, Checkpointed):
            size = format_count(event.bytes, brief=True)
            kinds = ", ".join(event.kinds)
            self._write(f"checkpoint {event.path.name} ({kinds}): {size} bytes in {event.seconds:.3f} s")
        elif isinstance(event, Stopping):
            self._write(f"stopping {at}, update {event.clock.updates}: {event.reason}")
        elif isinstance(event, Ended):
            self._write(f"{event.status}: {event.reason}, after {event.clock.seconds:.1f} s of training")

    def _progress(self, event: Updated, at: str) -> None:
        if time.monotonic() - self._progress_at < self._every:
            return
        self._progress_at = time.monotonic()
        row = event.rows[-1].metrics
        self._write(
            f"{row['time/progress']:.1%} {at}, update {event.clock.updates}, {event.clock.episodes} episodes, "
            f"return {row['roll/return_mean']:.6g}"
        )
        if self._level == logging.DEBUG:
            self._write(" ".join(f"{name}={value:.6g}" for name, value in row.items()), logging.DEBUG)

    def _write(self, text: str, level: int = logging.INFO, error: BaseException | None = None) -> None:
        """Write to this run's log only: others may be open in the same process."""
        if level >= self._level:
            trace = None if error is None else (type(error), error, error.__traceback__)
            self._handler.handle(logging.LogRecord("run", level, "", 0, text, None, trace))
