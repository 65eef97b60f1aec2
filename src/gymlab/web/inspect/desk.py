"""The workers of all visitors: started with a page, ended with it, and only so many at a time."""

from __future__ import annotations

import re
import secrets
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from gymlab.core.errors import UserError
from gymlab.inspector.client import Inspector

if TYPE_CHECKING:
    from fastapi import FastAPI

MOST = 4  # processes with JAX and an env each
_FILE = re.compile(r"e[0-9]{1,9}(-(env|seen|heat)-[0-9]{5,9}\.png|\.csv)")


class Desk:
    """By token: nobody can guess another visitor's files, and no name leads out of their folder."""

    def __init__(self) -> None:
        self._open: dict[str, Inspector] = {}

    def start(self, run: Path) -> tuple[str, Inspector]:
        if len(self._open) >= MOST:
            raise UserError(f"{MOST} inspectors are open already: close one of their pages first")
        token = secrets.token_urlsafe(16)
        self._open[token] = Inspector(run)
        return token, self._open[token]

    def end(self, token: str) -> None:
        """Aside: a process takes its time to go."""
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


def add_route(front: FastAPI, desk: Desk) -> None:
    """Pictures and CSV files of open pages."""
    from fastapi import HTTPException
    from fastapi.responses import FileResponse

    @front.get("/inspect-files/{token}/{name}")
    def file(token: str, name: str) -> FileResponse:
        path = desk.file(token, name)
        if path is None:
            raise HTTPException(404)
        headers = {"cache-control": "private, max-age=3600, immutable"}
        return FileResponse(path, filename=name if name.endswith(".csv") else None, headers=headers)
