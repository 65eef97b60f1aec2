"""The worker's end of the line: questions in, numbered answers out, and the end when nobody asks any more."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from gymlab.core.errors import GymlabError
from gymlab.process.child import own_stdout


class Line:
    """To be made first of all in a worker: what envs print must not end up among the answers."""

    def __init__(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's
        self._out = own_stdout()
        self._lock = threading.Lock()
        self.asked: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.cancelled: set[int] = set()
        threading.Thread(target=self._listen, daemon=True).start()

    def say(self, **fields: Any) -> None:
        with self._lock, contextlib.suppress(BrokenPipeError):
            self._out.write(json.dumps(fields) + "\n")
            self._out.flush()

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
            self.say(id=number, error=told(error))
        else:
            self.say(id=number, answer=found)

    def _listen(self) -> None:
        for line in sys.stdin:
            heard = json.loads(line)
            if "cancel" in heard:
                self.cancelled.add(heard["cancel"])
            else:
                self.asked.put(heard)
        os._exit(0)  # whoever asks is gone


def told(error: Exception) -> str:
    """A fault on one line, with its place."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"
