"""The tools, resources and prompts as the documentation has them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gymlab.mcp import tools_history
from gymlab.mcp.config import Lab
from gymlab.mcp.server import READING, WRITING, make_server

HEAD = """\
# MCP tools

What `gymlab mcp` offers a coding agent; [Hands for coding agents](../agents.md) says how to connect one. Every tool
answers with structured content of the shape below and the same as compact JSON text. A call that cannot be done comes
back as an error with `{"error": {"kind", "message"}}`: *input* (the call is wrong), *run* (the run or its environment
failed), *busy* (ask again), *timeout* (ask for less) or *internal*. Unknown arguments are refused."""


def page() -> str:
    """docs/reference/mcp.md, below its notice."""
    server = make_server(Lab(Path("runs"), allow_delete=True))
    schemas = {tool.name: tool.parameters for tool in server._tool_manager.list_tools()}
    parts = [HEAD]
    groups = {
        "Reading": READING,
        "Writing (on over stdio; every call is in the audit log)": WRITING,
        "Only with `--allow-delete`": (tools_history.delete_run,),
    }
    for title, tools in groups.items():
        parts.append(f"## {title}")
        for tool in tools:
            parts += list(_tool(tool, schemas[tool.__name__]))
    parts += ["## Resources", *_resources(server), "## Prompts", *_prompts(server)]
    return "\n\n".join(parts) + "\n"


def _tool(tool: Callable[..., Any], schema: dict[str, Any]) -> Iterator[str]:
    answer = inspect.signature(tool, eval_str=True).return_annotation
    yield f"### {tool.__name__}"
    told = ", ".join(f"`{name}`" for name in answer.model_fields)
    yield f"{_line(tool.__doc__)} Answers `{answer.__name__}`: {told}."
    rows = [
        f"| `{name}` | {_kind(field)} | {_default(name, field, schema)} | {field.get('description', '')} |"
        for name, field in schema["properties"].items()
    ]
    if rows:
        yield "\n".join(["| argument | kind | default | meaning |", "| --- | --- | --- | --- |", *rows])


def _kind(field: dict[str, Any]) -> str:
    known = next(option for option in field.get("anyOf", [field]) if option.get("type") != "null")
    if "enum" in known:
        return " ".join(f"`{value}`" for value in known["enum"])
    names = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}
    if known.get("type") == "array":
        return f"list, at most {known['maxItems']}"
    low, high = known.get("minimum"), known.get("maximum")
    bounds = f" {low:g} to {high:g}" if low is not None and high is not None else ""
    return names.get(known.get("type", ""), "value") + bounds


def _default(name: str, field: dict[str, Any], schema: dict[str, Any]) -> str:
    if name in schema.get("required", ()):
        return "required"
    value = field.get("default")
    return "–" if value in (None, "") else f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _resources(server: Any) -> list[str]:
    manager = server._resource_manager
    known = {str(entry.uri): entry.description for entry in manager.list_resources()}
    known |= {entry.uri_template: entry.description for entry in manager.list_templates()}
    return ["\n".join(f"- `{uri}`: {about}" for uri, about in sorted(known.items()))]


def _prompts(server: Any) -> list[str]:
    prompts = server._prompt_manager.list_prompts()
    return ["\n".join(f"- `{prompt.name}`: {_line(prompt.description)}" for prompt in prompts)]


def _line(text: str | None) -> str:
    return " ".join((text or "").split())
