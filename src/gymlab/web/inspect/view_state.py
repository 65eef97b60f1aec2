"""View state of one inspector page: run, episode and step, with callbacks on change."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from gymlab.web.workers.answers import InspectorFacts, PlayedEpisode
from gymlab.web.workers.client import InspectorClient, episode_table
from gymlab.web.workers.step_table import EpisodeTable

if TYPE_CHECKING:
    from gymlab.media.episode_trace import TraceRecord

Watcher = Callable[[], None]


class InspectorState:
    """Observable state of one page. `step` is valid whenever the table has rows."""

    def __init__(self, inspector: InspectorClient, token: str, run_id: str) -> None:
        self.inspector = inspector
        self.token = token
        self.run_id = run_id
        self.facts: InspectorFacts
        self.table: EpisodeTable | None = None
        self.step = 0
        self._answer: PlayedEpisode | None = None
        self._on_step: list[Watcher] = []
        self._on_table: list[Watcher] = []

    def on_step(self, watcher: Watcher) -> None:
        """Called at every change of the step, and after a new table."""
        self._on_step.append(watcher)

    def on_table(self, watcher: Watcher) -> None:
        self._on_table.append(watcher)

    def show(self, answer: PlayedEpisode, step: int = 0) -> None:
        """Switch to another episode, an answer of the worker."""
        before = self.table
        self._answer = answer
        self.table = episode_table(answer)
        if before is not None and before.name != self.table.name:
            self.inspector.forget(before.name)
        self.step = 0
        for watcher in self._on_table:
            watcher()
        self.go(step)

    def go(self, step: int) -> None:
        """Move to a step, clamped to the episode."""
        if self.table is None or not self.table.rows:
            return
        self.step = max(0, min(len(self.table.rows) - 1, step))
        for watcher in self._on_step:
            watcher()

    @property
    def last(self) -> int:
        return len(self.table.rows) - 1 if self.table is not None else 0

    @property
    def row(self) -> TraceRecord | None:
        return self.table.rows[self.step] if self.table is not None and self.table.rows else None

    def address(self, kind: Literal["env_files", "seen_files"]) -> str:
        """URL of the step's picture, of `env_files` or `seen_files`; "" where there is none."""
        files = [] if self._answer is None else self._answer[kind]
        return self.file(files[self.step]) if self.step < len(files) else ""

    def file(self, name: str) -> str:
        return f"/worker-files/{self.token}/{name}"

    @property
    def text(self) -> str:
        """The ANSI rendering of the step, where the env renders text."""
        texts = [] if self._answer is None else self._answer["texts"]
        return texts[self.step] if self.step < len(texts) else ""
