"""MCP server with every tool, resource and prompt; over stdio, or over HTTP on the loopback interface."""

from __future__ import annotations

import hmac
import logging
import sys
from collections.abc import Callable
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from gymlab.core import __version__
from gymlab.mcp import tools_catalogue, tools_policy, tools_runs, tools_sweep, tools_training
from gymlab.mcp.config import ServerConfig
from gymlab.mcp.resources import add_prompts, add_resources
from gymlab.mcp.tool_adapter import GymlabServer, add_tool

INSTRUCTIONS = """\
gymlab trains reinforcement-learning agents on Gymnasium environments. Find a recipe (list_recipes), start it
(start_training: it returns at once, the run goes on without this server), wait, then look: status, alerts, diagnose,
metrics, compare_runs, report. suggest_next gives overrides for the next try. Overrides are key=value; validate_recipe
and explain tell what keys there are. Long work waits in one queue. Answers are short: page with limit and offset."""

READING: tuple[Callable[..., Any], ...] = (
    tools_catalogue.list_envs,
    tools_catalogue.list_recipes,
    tools_catalogue.show_recipe,
    tools_catalogue.validate_recipe,
    tools_catalogue.explain,
    tools_training.status,
    tools_training.wait,
    tools_training.queue,
    tools_runs.list_runs,
    tools_runs.show_run,
    tools_runs.compare_runs,
    tools_runs.metrics,
    tools_runs.alerts,
    tools_runs.logs,
    tools_runs.report,
    tools_policy.evaluate,
    tools_policy.episode,
    tools_policy.frames,
    tools_policy.diagnose,
    tools_policy.suggest_next,
    tools_sweep.sweep_status,
    tools_sweep.sweep_results,
    tools_runs.digest,
)
WRITING: tuple[Callable[..., Any], ...] = (
    tools_training.start_training,
    tools_training.stop,
    tools_training.resume,
    tools_sweep.sweep_start,
)


def make_server(config: ServerConfig) -> MCPServer[Any]:
    """A server for one runs folder."""
    server = GymlabServer("gymlab", title="gymlab", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING")
    for tool in READING:
        add_tool(server, config, tool)
    for tool in WRITING if config.write else ():
        add_tool(server, config, tool, writes=True)
    if config.allow_delete:
        add_tool(server, config, tools_runs.delete_run, writes=True)
    add_resources(server, config)
    add_prompts(server, config)
    return server


def serve_stdio(config: ServerConfig) -> None:
    """Serve until the client closes stdin."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    make_server(config).run("stdio")


def http_app(config: ServerConfig, port: int, token: str) -> Any:
    """ASGI application: accepts loopback Host and Origin headers only, and demands the bearer token."""
    names = [f"{host}:{port}" for host in ("127.0.0.1", "localhost")]
    security = TransportSecuritySettings(allowed_hosts=names, allowed_origins=[f"http://{name}" for name in names])
    inner = make_server(config).streamable_http_app(transport_security=security, host="127.0.0.1")

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and not _has_token(scope["headers"], token):
            await send({"type": "http.response.start", "status": 401, "headers": [(b"www-authenticate", b"Bearer")]})
            await send({"type": "http.response.body", "body": b"a token is needed"})
            return
        await inner(scope, receive, send)

    return guarded


def serve_http(config: ServerConfig, port: int, token: str) -> None:
    """Serve on 127.0.0.1 until interrupted."""
    import uvicorn

    uvicorn.run(http_app(config, port, token), host="127.0.0.1", port=port, log_level="warning")


def _has_token(headers: list[tuple[bytes, bytes]], token: str) -> bool:
    header = next((value for name, value in headers if name == b"authorization"), b"")
    return hmac.compare_digest(header, f"Bearer {token}".encode())
