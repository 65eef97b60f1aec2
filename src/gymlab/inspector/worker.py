"""The process beside a page that holds JAX, the env and the policy: `python -m gymlab.inspector.worker`.

It reads one JSON line per question, `{"id", "ask", ...}`, and answers with lines `{"id", "progress"}` and at last one
`{"id", "answer"}` or `{"id", "error"}`. `{"cancel": id}` ends an episode. It ends when its standard input does.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymlab.core.errors import GymlabError, UserError
from gymlab.experiment.child import own_stdout
from gymlab.inspector.table import Asked

if TYPE_CHECKING:
    from gymlab.inspector.session import Session

_PROGRESS_SECONDS = 0.1


def main() -> None:
    """Serve until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's
    line = own_stdout()
    lock = threading.Lock()

    def say(**fields: Any) -> None:
        with lock, contextlib.suppress(BrokenPipeError):
            line.write(json.dumps(fields) + "\n")
            line.flush()

    asked: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    cancelled: set[int] = set()
    threading.Thread(target=_listen, args=(asked, cancelled), daemon=True).start()
    worker = Worker(say, cancelled)
    while True:
        worker.answer(asked.get())


def _listen(asked: queue.SimpleQueue[dict[str, Any]], cancelled: set[int]) -> None:
    for line in sys.stdin:
        told = json.loads(line)
        if "cancel" in told:
            cancelled.add(told["cancel"])
        else:
            asked.put(told)
    os._exit(0)  # whoever asks is gone


class Worker:
    """Answers questions about one run, one after the other."""

    def __init__(self, say: Any, cancelled: set[int]) -> None:
        self._say, self._cancelled = say, cancelled
        self._session: Session | None = None
        self._told = 0.0

    def answer(self, question: dict[str, Any]) -> None:
        number, ask = question.pop("id"), question.pop("ask")
        try:
            found = getattr(self, f"_{ask}")(number, **question)
        except GymlabError as error:
            self._say(id=number, error=str(error))
        except Exception as error:
            traceback.print_exc()
            frame = traceback.extract_tb(error.__traceback__)[-1]
            told = f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"
            self._say(id=number, error=told)
        else:
            self._say(id=number, answer=found)

    def _open(self, _: int, run: str, folder: str) -> dict[str, Any]:
        from gymlab.inspector.session import Session
        from gymlab.runs.paths import RunPaths

        self._session = Session(RunPaths(Path(run)), Path(folder))
        return self._session.facts()

    def _episode(self, number: int, name: str, forced: dict[str, Any] | None = None, **asked: Any) -> dict[str, Any]:
        def on_step(step: int, total: float) -> None:
            if number in self._cancelled:
                raise UserError("stopped")
            if time.monotonic() - self._told >= _PROGRESS_SECONDS:
                self._told = time.monotonic()
                self._say(id=number, progress={"steps": step, "return": total})

        wanted = Asked(**asked, forced={int(step): action for step, action in (forced or {}).items()})
        return self._opened.episode(wanted, name, on_step)

    def _forget(self, _: int, name: str) -> None:
        self._opened.forget(name)

    def _what_if(self, _: int, **where: Any) -> dict[str, Any]:
        return self._opened.what_if(**where)

    def _attribution(self, _: int, **where: Any) -> dict[str, Any]:
        return self._opened.attribution(**where)

    @property
    def _opened(self) -> Session:
        assert self._session is not None, "open comes first"
        return self._session


if __name__ == "__main__":
    main()
