"""Adapts a function to an MCP tool: strict arguments, typed errors, audit log of calls that write."""

from __future__ import annotations

import functools
import inspect
import json
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import CallToolResult, ContentBlock, ImageContent, TextContent, ToolAnnotations
from pydantic import BaseModel, ValidationError

from gymlab.core.errors import GymlabError, UserError, suggestion
from gymlab.mcp.answers import ToolFailure
from gymlab.mcp.commands import Busy, TooLong
from gymlab.runs import files
from gymlab.runs.logs import open_append
from gymlab.runs.paths import prepare_runs_folder
from gymlab.runs.redact import redact, redact_tree
from gymlab.runs.status import now

if TYPE_CHECKING:
    from gymlab.mcp.config import ServerConfig

log = logging.getLogger(__name__)
AUDIT = ".audit.jsonl"
_AUDIT_BYTES = 5 * 2**20
_THREADS = 64  # more than the calls that may wait for a process: quick calls always find a free thread


class Picture(NamedTuple):
    """An answer with images."""

    answer: BaseModel
    pngs: list[str]  # base64


def add_tool(
    server: MCPServer[Any], config: ServerConfig, function: Callable[..., Any], *, writes: bool = False
) -> None:
    """Register `function(config, ...)` as a tool; its name and docstring become the tool's."""
    bound = _bind(config, function, writes=writes)
    hints = ToolAnnotations(read_only_hint=not writes, open_world_hint=False)
    server.tool(annotations=hints)(bound)
    tool = server._tool_manager.get_tool(function.__name__)
    assert tool is not None
    _refuse_unknown_arguments(tool)
    tool.parameters = _without_titles(tool.parameters)
    tool.fn_metadata.output_schema = _without_titles(tool.fn_metadata.output_schema)


def _bind(config: ServerConfig, function: Callable[..., Any], *, writes: bool) -> Callable[..., Any]:
    signature = inspect.signature(function, eval_str=True)
    kept = [parameter for name, parameter in signature.parameters.items() if name != "config"]
    slow = inspect.iscoroutinefunction(function)

    async def call(**arguments: Any) -> CallToolResult:
        try:
            if slow:
                answer = await function(config, **arguments)
            else:
                answer = await anyio.to_thread.run_sync(
                    functools.partial(function, config, **arguments), limiter=_limiter()
                )
            result = _result(answer)
        except Exception as error:  # any error of a tool becomes an answer: the server must not end
            result = _failed(function.__name__, error)
        if writes:
            _audit(config, function.__name__, arguments, result)
        return result

    call.__name__ = function.__name__
    call.__doc__ = inspect.getdoc(function)
    returned = Annotated[CallToolResult, signature.return_annotation]
    call.__signature__ = signature.replace(parameters=kept, return_annotation=returned)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in kept} | {"return": returned}
    return call


@functools.cache
def _limiter() -> anyio.CapacityLimiter:
    return anyio.CapacityLimiter(_THREADS)


def _refuse_unknown_arguments(tool: Tool) -> None:
    """Forbid extra arguments: by default the SDK ignores a misspelt one."""
    model = tool.fn_metadata.arg_model
    model.model_config["extra"] = "forbid"
    model.model_rebuild(force=True)
    tool.parameters["additionalProperties"] = False


def _without_titles(schema: Any, *, names: bool = False) -> Any:
    """The schema without the titles, which repeat the names and cost every client tokens."""
    if isinstance(schema, dict):
        kept = {key: value for key, value in schema.items() if names or key != "title"}
        return {key: _without_titles(value, names=key == "properties" and not names) for key, value in kept.items()}
    return [_without_titles(item) for item in schema] if isinstance(schema, list) else schema


def _result(answer: Any) -> CallToolResult:
    pictures: list[ContentBlock] = []
    if isinstance(answer, Picture):
        pictures = [ImageContent(type="image", data=png, mime_type="image/png") for png in answer.pngs]
        answer = answer.answer
    data = json.loads(files.strict_json(answer.model_dump(mode="python")))
    brief = json.dumps(_without_none(data), ensure_ascii=False, separators=(",", ":"))
    return CallToolResult(content=[TextContent(type="text", text=brief), *pictures], structured_content=data)


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list) else value


def _failed(name: str, error: Exception) -> CallToolResult:
    kinds = {Busy: "busy", TooLong: "timeout"}
    if isinstance(error, GymlabError):
        kind = kinds.get(type(error), "input" if isinstance(error, UserError) else "run")
        failure = ToolFailure(kind=kind, message=redact(str(error))[:2000])
    else:
        log.exception("tool %s", name, exc_info=error)
        failure = ToolFailure(kind="internal", message=f"{name} failed inside gymlab ({type(error).__name__})")
    text = TextContent(type="text", text=f"error ({failure.kind}): {failure.message}")
    return CallToolResult(content=[text], structured_content={"error": failure.model_dump()}, is_error=True)


def _audit(config: ServerConfig, tool: str, arguments: dict[str, Any], result: CallToolResult) -> None:
    """Append the call to the audit log of the runs folder."""
    prepare_runs_folder(config.root)
    path = config.root / AUDIT
    entry = {"time": now(), "tool": tool, "arguments": redact_tree(arguments), "ok": not result.is_error}
    fd = open_append(path)
    try:
        os.write(fd, (files.strict_json(entry) + "\n").encode())
        if os.fstat(fd).st_size > _AUDIT_BYTES:
            os.replace(path, path.with_name(f"{AUDIT}.1"))
    finally:
        os.close(fd)


class GymlabServer(MCPServer[Any]):
    """MCP server that answers unknown tools and invalid arguments with a typed error and a suggestion."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        try:
            return await super().call_tool(name, arguments, context)
        except UnexpectedToolError:
            raise
        except ToolError as error:
            tools = [tool.name for tool in self._tool_manager.list_tools()]
            if name not in tools:
                return _failed(name, UserError(f"unknown tool {name[:80]!r}: {suggestion(name[:80], tools)}"))
            cause = error.__cause__
            faults = cause.errors() if isinstance(cause, ValidationError) else []
            problems = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults[:8]]
            return _failed(name, UserError("; ".join(problems) or str(error)))
