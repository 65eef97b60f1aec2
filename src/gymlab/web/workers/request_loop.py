"""The worker's end of the line: questions in, numbered answers out, and the end when nobody asks any more."""

from __future__ import annotations

import json
import queue
import traceback
from pathlib import Path
from typing import Any

from gymlab.core.errors import GymlabError
from gymlab.process.parent_watch import ParentPipe, ignore_signals


class RequestChannel:
    """To be made first of all in a worker: what envs print must not end up among the answers."""

    def __init__(self) -> None:
        ignore_signals("SIGINT")  # Ctrl-C is the parent's
        self._parent = ParentPipe()
        self.asked: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.cancelled: set[int] = set()
        self._parent.listen(self._read)

    def say(self, **fields: Any) -> None:
        self._parent.send(json.dumps(fields))

    def answer(self, worker: Any, question: dict[str, Any]) -> None:
        """Let `worker.ask_<what>(number, **fields)` answer a question; what goes wrong is an answer too."""
        number = question.pop("id")
        ask = question.pop("ask")
        try:
            found = getattr(worker, f"ask_{ask}")(number, **question)
        except GymlabError as error:
            self.say(id=number, error=str(error))
        except Exception as error:
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
    """A fault on one line, with its place."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"
