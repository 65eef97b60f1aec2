"""The process beside a page that holds JAX, the env and the policy: `python -m gymlab.web.workers.inspector_worker`.

It reads one JSON line per question, `{"id", "ask", ...}`, and answers with lines `{"id", "progress"}` and at last one
`{"id", "answer"}` or `{"id", "error"}`. `{"cancel": id}` ends an episode. It ends when its standard input does.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymlab.core.errors import UserError
from gymlab.web.workers.answering import Line
from gymlab.web.workers.step_table import Asked

if TYPE_CHECKING:
    from gymlab.web.workers.policy_session import Session

_PROGRESS_SECONDS = 0.1


def main() -> None:
    """Serve until the parent is gone."""
    line = Line()
    worker = Worker(line)
    while True:
        line.answer(worker, line.asked.get())


class Worker:
    """Answers questions about one run, one after the other."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._session: Session | None = None
        self._told = 0.0

    def ask_open(self, _: int, run: str, folder: str) -> dict[str, Any]:
        from gymlab.runs.paths import RunPaths
        from gymlab.web.workers.policy_session import Session

        self._session = Session(RunPaths(Path(run)), Path(folder))
        return self._session.facts()

    def ask_episode(self, number: int, name: str, forced: dict[str, Any] | None = None, **asked: Any) -> dict[str, Any]:
        def on_step(step: int, total: float) -> None:
            if number in self._line.cancelled:
                raise UserError("stopped")
            if time.monotonic() - self._told >= _PROGRESS_SECONDS:
                self._told = time.monotonic()
                self._line.say(id=number, progress={"steps": step, "return": total})

        wanted = Asked(**asked, forced={int(step): action for step, action in (forced or {}).items()})
        return self._opened.episode(wanted, name, on_step)

    def ask_forget(self, _: int, name: str) -> None:
        self._opened.forget(name)

    def ask_what_if(self, _: int, **where: Any) -> dict[str, Any]:
        return self._opened.what_if(**where)

    def ask_attribution(self, _: int, **where: Any) -> dict[str, Any]:
        return self._opened.attribution(**where)

    @property
    def _opened(self) -> Session:
        assert self._session is not None, "open comes first"
        return self._session


if __name__ == "__main__":
    main()
