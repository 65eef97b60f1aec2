"""The playground's worker as the page sees it: one process, one game, numbers to move."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from gymlab.web.workers.client import OnProgress, WorkerClient


class Playground:
    """Everything returns at once; answers are futures."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gymlab-playground-"))
        self._questions = WorkerClient("gymlab.web.workers.playground_worker")

    def start(self, game: str, seed: int) -> Future[Mapping[str, Any]]:
        """Anew, with first weights; the answer has the numbers that can be moved."""
        return self._questions.ask("start", game=game, seed=seed)

    def run(self, on_progress: OnProgress) -> Future[None]:
        """Train until `pause`; progress is told from a thread after every call of compiled code."""
        return self._questions.ask("run", on_progress)

    def pause(self) -> Future[None]:
        return self._questions.ask("pause")

    def set(self, name: str, value: float) -> Future[None]:
        """From the next update on."""
        return self._questions.ask("set", name=name, value=value)

    def episode(self, seed: int) -> Future[Mapping[str, Any]]:
        """The policy as it is now at play: pictures in the folder."""
        return self._questions.ask("episode", folder=str(self.folder), seed=seed)

    def close(self) -> None:
        self._questions.end()
        shutil.rmtree(self.folder, ignore_errors=True)
