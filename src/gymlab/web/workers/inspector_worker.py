"""The inspector's worker process, with JAX, the env and the policy: `python -m gymlab.web.workers.inspector_worker`.

It reads one JSON line per question, `{"id", "ask", ...}`, and answers with lines `{"id", "progress"}` and at last one
`{"id", "answer"}` or `{"id", "error"}`. `{"cancel": id}` ends an episode. It ends when its standard input does.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from gymlab.core.errors import UserError
from gymlab.core.types import Json
from gymlab.web.workers.answers import AttributionAnswer, InspectorFacts, PlayedEpisode, PolicyOutput
from gymlab.web.workers.request_loop import RequestChannel
from gymlab.web.workers.step_table import EpisodeRequest, RequestFields

if TYPE_CHECKING:
    from gymlab.web.workers.inspector_session import InspectorSession

_PROGRESS_SECONDS = 0.1


def main() -> None:
    """Serve until the parent exits."""
    line = RequestChannel()
    worker = InspectorWorker(line)
    while True:
        line.answer(worker, line.asked.get())


class InspectorWorker:
    """Answers requests about one run, one at a time."""

    def __init__(self, line: RequestChannel) -> None:
        self._line = line
        self._session: InspectorSession | None = None
        self._progress_sent = 0.0

    def ask_open(self, _: int, run: str, folder: str) -> InspectorFacts:
        from gymlab.runs.paths import RunPaths
        from gymlab.web.workers.inspector_session import InspectorSession

        self._session = InspectorSession(RunPaths(Path(run)), Path(folder))
        return self._session.facts()

    def ask_episode(
        self, number: int, name: str, forced: dict[str, Json] | None = None, **asked: Unpack[RequestFields]
    ) -> PlayedEpisode:
        def on_step(step: int, total: float) -> None:
            if number in self._line.cancelled:
                raise UserError("stopped")
            if time.monotonic() - self._progress_sent >= _PROGRESS_SECONDS:
                self._progress_sent = time.monotonic()
                self._line.say(id=number, progress={"steps": step, "return": total})

        request = EpisodeRequest(**asked, forced={int(step): action for step, action in (forced or {}).items()})
        return self._opened.episode(request, name, on_step)

    def ask_forget(self, _: int, name: str) -> None:
        self._opened.forget(name)

    def ask_what_if(self, _: int, name: str, step: int, observation: Json = None) -> PolicyOutput:
        return self._opened.what_if(name, step, observation)

    def ask_attribution(self, _: int, name: str, step: int) -> AttributionAnswer:
        return self._opened.attribution(name, step)

    @property
    def _opened(self) -> InspectorSession:
        assert self._session is not None, "open comes first"
        return self._session


if __name__ == "__main__":
    main()
