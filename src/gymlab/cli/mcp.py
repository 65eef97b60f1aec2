"""`gymlab mcp`: gymlab as tools for a coding agent."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated

import typer

from gymlab.cli.options import parse_env_steps


def mcp(
    http: Annotated[bool, typer.Option("--http", help="On http://127.0.0.1:PORT/mcp instead of stdin/stdout.")] = False,
    port: Annotated[int, typer.Option(min=1, max=65535, help="With --http.")] = 8765,
    token: Annotated[
        str | None, typer.Option(metavar="TEXT", envvar="GYMLAB_MCP_TOKEN", help="With --http; default: a fresh one.")
    ] = None,
    allow_write: Annotated[
        bool, typer.Option("--allow-write", help="With --http: also start, stop and resume; over stdio that is on.")
    ] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Nothing starts, stops or resumes.")] = False,
    allow_code: Annotated[
        bool, typer.Option("--allow-code", help="Recipes and overrides may name files and module:Class.")
    ] = False,
    allow_delete: Annotated[bool, typer.Option("--allow-delete", help="Runs may be removed.")] = False,
    max_steps: Annotated[str | None, typer.Option(metavar="N", help="Largest budget of a run, e.g. 5M.")] = None,
) -> None:
    """Serve the lab to a coding agent over MCP: typed tools to train, look, diagnose, compare and sweep.

    Example: claude mcp add gymlab -- gymlab mcp
    """
    from gymlab.core.errors import UserError
    from gymlab.recipes.project_settings import runs_folder

    if find_spec("mcp") is None:
        raise UserError("the MCP server needs an extra package: pip install 'gymlab[mcp]'")
    most_steps = parse_env_steps("--max-steps", max_steps, least=1)
    from gymlab.mcp.config import ServerConfig
    from gymlab.mcp.server import serve_http, serve_stdio

    config = ServerConfig(
        runs_folder().absolute(),
        write=not read_only and (allow_write or not http),
        allow_code=allow_code,
        allow_delete=allow_delete,
        max_steps=most_steps,
    )
    if not http:
        serve_stdio(config)
        return
    import secrets

    secret = token or secrets.token_urlsafe(24)
    typer.echo(f"http://127.0.0.1:{port}/mcp" + ("" if token else f"  Authorization: Bearer {secret}"), err=True)
    serve_http(config, port, secret)
