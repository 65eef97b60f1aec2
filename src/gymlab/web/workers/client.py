"""The page's side of a worker process, without JAX: numbered requests out as JSON lines, answers back as futures."""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from gymlab.core.errors import GymlabError, RunError
from gymlab.core.types import Json
from gymlab.process.child import start_worker
from gymlab.web.workers.answers import (
    AttributionAnswer,
    EpisodeProgress,
    InspectorFacts,
    PlayedEpisode,
    PlaygroundEpisode,
    PlaygroundFacts,
    PlaygroundReport,
    PolicyOutput,
)
from gymlab.web.workers.step_table import EpisodeRequest, EpisodeTable

T = TypeVar("T")
OnProgress = Callable[[Any], None]  # called from a thread, with what the request reports


class WorkerClient:
    """A child process that answers numbered requests."""

    def __init__(self, module: str) -> None:
        self._numbers = itertools.count(1)
        self._open: dict[int, tuple[Future[Any], OnProgress | None]] = {}
        self._lock = threading.Lock()
        self._gone = False
        self._ended = False  # on purpose
        self._child = start_worker(module, self._hear)

    def ask(self, what: str, on_progress: OnProgress | None = None, **fields: object) -> Future[Any]:
        """Send a request; its future fails with a GymlabError."""
        number = next(self._numbers)
        found = Future[Any]()
        found.number = number  # type: ignore[attr-defined]
        with self._lock:
            if self._gone:
                found.set_exception(RunError("the worker process of this page has ended: reload the page"))
                return found
            self._open[number] = (found, on_progress)
        self._child.send(json.dumps({"id": number, "ask": what, **fields}))
        return found

    def cancel(self, asked: Future[Any]) -> None:
        self._child.send(json.dumps({"cancel": asked.number}))  # type: ignore[attr-defined]

    def end(self) -> None:
        """End the process; requests in flight are cancelled."""
        self._ended = True
        self._child.end(1.0)

    def _hear(self, line: str | None) -> None:
        if line is None:
            self._end_all()
            return
        message = json.loads(line)
        with self._lock:
            found, on_progress = self._open.get(message["id"], (None, None))
            if "progress" not in message:
                self._open.pop(message["id"], None)
        if found is None:
            return
        if "progress" in message:
            if on_progress is not None:
                on_progress(message["progress"])
        elif "error" in message:
            found.set_exception(GymlabError(message["error"]))
        else:
            found.set_result(message["answer"])

    def _end_all(self) -> None:
        with self._lock:
            self._gone = True
            left = list(self._open.values())
            self._open = {}
        for found, _ in left:
            if self._ended:
                found.cancel()
            else:
                words = self._child.stderr_tail()
                found.set_exception(RunError(f"the worker process of this page died: {words}"))


class InspectorClient:
    """One run's worker and its folder of pictures. All methods return futures without blocking."""

    def __init__(self, run: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gymlab-inspect-"))
        self._worker = WorkerClient("gymlab.web.workers.inspector_worker")
        self._names = (f"e{number}" for number in itertools.count())
        self.facts: Future[InspectorFacts] = self._worker.ask("open", run=str(run), folder=str(self.folder))

    def episode(
        self, asked: EpisodeRequest, on_progress: Callable[[EpisodeProgress], None] | None = None
    ) -> Future[PlayedEpisode]:
        """Play an episode; `episode_table` makes a table of the answer."""
        return self._worker.ask("episode", on_progress, name=next(self._names), **asdict(asked))

    def cancel(self, asked: Future[PlayedEpisode]) -> None:
        """Stop an episode that is being played: its future fails."""
        self._worker.cancel(asked)

    def forget(self, name: str) -> None:
        self._worker.ask("forget", name=name)

    def what_if(self, name: str, step: int, observation: Json = None) -> Future[PolicyOutput]:
        return self._worker.ask("what_if", name=name, step=step, observation=observation)

    def attribution(self, name: str, step: int) -> Future[AttributionAnswer]:
        return self._worker.ask("attribution", name=name, step=step)

    def csv(self, name: str) -> bytes:
        return (self.folder / f"{name}.csv").read_bytes()

    def close(self) -> None:
        self._worker.end()
        shutil.rmtree(self.folder, ignore_errors=True)


def episode_table(answer: PlayedEpisode) -> EpisodeTable:
    return EpisodeTable(
        rows=answer["rows"],
        ended=answer["ended"],
        checkpoint=answer["checkpoint"],
        seed=answer["seed"],
        sampled=answer["sampled"],
        name=answer["name"],
    )


class PlaygroundClient:
    """The playground's worker. All methods return futures without blocking."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gymlab-playground-"))
        self._worker = WorkerClient("gymlab.web.playground.training_worker")

    def start(self, game: str, seed: int) -> Future[PlaygroundFacts]:
        """Start over with initial weights; the answer lists the adjustable hyperparameters."""
        return self._worker.ask("start", game=game, seed=seed)

    def run(self, on_progress: Callable[[PlaygroundReport], None]) -> Future[None]:
        """Train until `pause`; `on_progress` is called from a thread after every call of compiled code."""
        return self._worker.ask("run", on_progress)

    def pause(self) -> Future[None]:
        return self._worker.ask("pause")

    def set(self, name: str, value: float) -> Future[None]:
        """Set a hyperparameter from the next update on."""
        return self._worker.ask("set", name=name, value=value)

    def episode(self, seed: int) -> Future[PlaygroundEpisode]:
        """Play an episode with the present policy; its pictures are written to the folder."""
        return self._worker.ask("episode", folder=str(self.folder), seed=seed)

    def close(self) -> None:
        self._worker.end()
        shutil.rmtree(self.folder, ignore_errors=True)
