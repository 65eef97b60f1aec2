"""The web server: binds a local port, requires a token beyond localhost, ends on Ctrl-C or SIGTERM."""

from __future__ import annotations

import contextlib
import importlib.util
import signal
import socket
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gymlab.core.errors import UserError
from gymlab.web.pages import Site
from gymlab.web.request_guard import ANYWHERE, LOCAL, MOST_BYTES, RequestGuard

if TYPE_CHECKING:
    from uvicorn import Server

EXTRA = "the web page needs an extra package: pip install 'gymlab[web]'"
_SHORTEST_TOKEN = 8


def serve(
    runs_dir: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    open_browser: bool = True,
    path: str = "/",
    say: Callable[[str], None] = print,
) -> None:
    """Serve the pages until Ctrl-C or SIGTERM. Port 0 takes a free one; `path` is the page that is opened."""
    check_access(host, token)
    if importlib.util.find_spec("nicegui") is None:
        raise UserError(EXTRA)
    with _bound(host, port) as listening:
        port = listening.getsockname()[1]
        server = _server(Site(runs_dir), host, port, token)
        shown = "127.0.0.1" if host in ANYWHERE else f"[{host}]" if ":" in host.strip("[]") else host
        address = f"http://{shown}:{port}{path}{f'?token={token}' if token else ''}"
        say(f"gymlab web: {address}  (runs in {runs_dir}; Ctrl-C ends it)")
        if open_browser:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        # uvicorn raises the signal again after its graceful shutdown: ignore that one.
        before = signal.signal(signal.SIGTERM, lambda *_: None)
        try:
            with contextlib.suppress(KeyboardInterrupt):
                server.run(sockets=[listening])
        finally:
            signal.signal(signal.SIGTERM, before)


def check_access(host: str, token: str | None) -> None:
    """UserError where others could read and change the runs."""
    if token is not None and (len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isalnum()):
        raise UserError(f"--token: at least {_SHORTEST_TOKEN} letters and digits")
    if host not in LOCAL and host != "::1" and token is None:
        raise UserError(
            f"--host {host}: others could read and change your runs: add --token TEXT, or leave --host at 127.0.0.1"
        )


def _bound(host: str, port: int) -> socket.socket:
    name = host.strip("[]")
    family = socket.AF_INET6 if ":" in name else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((name, port))
    except OSError as error:
        listening.close()
        raise UserError(f"cannot listen at {host}:{port} ({error.strerror}): --port 0 takes a free one") from error
    return listening


def _server(site: Site, host: str, port: int, token: str | None) -> Server:
    import uvicorn
    from fastapi import FastAPI
    from nicegui import ui

    from gymlab.web.pages import register_all

    front = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    register_all(site, front)
    ui.run_with(
        front,
        title="gymlab",
        favicon="🏋",
        dark=None,
        language="en-US",
        binding_refresh_interval=None,  # nothing is bound: an idle page costs nothing
        reconnect_timeout=10.0,
        message_history_length=100,
        gzip_middleware_factory=None,  # it never leaves the machine, or seldom
        show_welcome_message=False,
    )
    config = uvicorn.Config(
        RequestGuard(front, host, port, token),
        log_level="warning",
        ws="wsproto",
        ws_max_size=MOST_BYTES,
        ws_per_message_deflate=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config)
