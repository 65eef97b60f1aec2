"""Worker limit: at most `MOST` worker processes of open pages, each ended with its page; serves their files."""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from gymlab.core.errors import UserError

if TYPE_CHECKING:
    from fastapi import FastAPI

MOST = 4  # processes with JAX and an env each
_FILE = re.compile(r"e[0-9]{1,9}(-(env|seen|heat)-[0-9]{5,9}\.png|\.csv)")


class PageWorker(Protocol):
    """A worker process and the folder of its files."""

    folder: Path

    def close(self) -> None: ...


W = TypeVar("W", bound=PageWorker)


class PageWorkers:
    """Open workers by secret token: files of other pages cannot be guessed, and no name leaves a worker's folder."""

    def __init__(self) -> None:
        self._open: dict[str, PageWorker] = {}

    def take(self, start: Callable[[], W]) -> tuple[str, W]:
        """Start a worker and return its token; UserError at the limit."""
        if len(self._open) >= MOST:
            raise UserError(f"{MOST} pages with a worker process are open already: close one of them first")
        token = secrets.token_urlsafe(16)
        worker = start()
        self._open[token] = worker
        return token, worker

    def end(self, token: str) -> None:
        """End a worker in a thread, since closing a process takes time."""
        found = self._open.pop(token, None)
        if found is not None:
            threading.Thread(target=found.close, daemon=True).start()

    def end_all(self) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def file(self, token: str, name: str) -> Path | None:
        """A file that a worker wrote; None for anything else."""
        found = self._open.get(token)
        if found is None or not _FILE.fullmatch(name):
            return None
        path = found.folder / name
        return path if path.is_file() else None


def page_workers(front: FastAPI) -> PageWorkers:
    """The server's workers; the first call also serves their files at `/worker-files/TOKEN/NAME`."""
    from fastapi import HTTPException
    from fastapi.responses import FileResponse
    from nicegui import app

    known: PageWorkers | None = getattr(front.state, "workers", None)
    if known is not None:
        return known
    workers = front.state.workers = PageWorkers()
    app.on_shutdown(workers.end_all)

    @front.get("/worker-files/{token}/{name}")
    def file(token: str, name: str) -> FileResponse:
        path = workers.file(token, name)
        if path is None:
            raise HTTPException(404)
        headers = {"cache-control": "private, max-age=3600, immutable"}
        return FileResponse(path, filename=name if name.endswith(".csv") else None, headers=headers)

    return workers
