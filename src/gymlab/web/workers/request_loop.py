"""The worker's side of a page: requests in, numbered answers out, exit when the parent closes the pipe."""

from __future__ import annotations

import json
import queue
import traceback
from pathlib import Path
from typing import Any

from gymlab.core.errors import GymlabError
from gymlab.process.parent_watch import ParentPipe, ignore_signals


class RequestChannel:
    """The pipe to the parent. Create it first: it redirects stdout, so that what envs print is no answer."""

    def __init__(self) -> None:
        ignore_signals("SIGINT")  # Ctrl-C is the parent's
        self._parent = ParentPipe()
        self.asked: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.cancelled: set[int] = set()
        self._parent.listen(self._read)

    def say(self, **fields: object) -> None:
        self._parent.send(json.dumps(fields))

    def answer(self, worker: object, question: dict[str, Any]) -> None:
        """Answer a request by `worker.ask_<what>(number, **fields)`; an error is answered too."""
        number = question.pop("id")
        ask = question.pop("ask")
        try:
            found = getattr(worker, f"ask_{ask}")(number, **question)
        except GymlabError as error:
            self.say(id=number, error=str(error))
        except Exception as error:  # envs and policies raise anything: the page shows it, the worker survives
            traceback.print_exc()
            self.say(id=number, error=format_fault(error))
        else:
            self.say(id=number, answer=found)

    def _read(self, line: str) -> None:
        message = json.loads(line)
        if "cancel" in message:
            self.cancelled.add(message["cancel"])
        else:
            self.asked.put(message)


def format_fault(error: Exception) -> str:
    """An exception on one line, with file and line number."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"
