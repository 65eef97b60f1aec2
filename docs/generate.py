"""Writes the pages of docs/reference from the typed code; `--check` exits 1 where they are stale."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import tomllib
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import annotated_types
import typer
from pydantic.fields import FieldInfo
from typer.models import ArgumentInfo

from gymlab.alerts.explain import page as alerts_page
from gymlab.algorithms.registry import ALGORITHMS
from gymlab.algorithms.settings import Positive, Share
from gymlab.cli.main import app
from gymlab.core.schedules import Schedule
from gymlab.core.settings import Settings
from gymlab.envs.settings import Part
from gymlab.envs.wrappers import WRAPPERS, load_wrapper
from gymlab.metrics.explain import metrics_table
from gymlab.recipes.schema import Recipe, Steps
from gymlab.recipes.schema import Share as ShareOfBudget

DOCS = Path(__file__).parent
HERE = DOCS / "reference"
SOURCE = DOCS.parent / "src/gymlab"
NOTICE = "<!-- Written by docs/generate.py (make docs) from the code: edit it there. -->"
MCP_HEAD = """\
# MCP tools

What `gymlab mcp` offers a coding agent; [Hands for coding agents](../agents.md) says how to connect one. Every tool
answers with structured content of the shape below and the same as compact JSON text. A call that cannot be done comes
back as an error with `{"error": {"kind", "message"}}`: *input* (the call is wrong), *run* (the run or its environment
failed), *busy* (ask again), *timeout* (ask for less) or *internal*. Unknown arguments are refused."""
POSITIVE, SHARE = get_args(Positive)[-1], get_args(Share)[-1]


def main(check: bool) -> int:
    """Write the pages, or only say which would change."""
    how_it_works = DOCS / "how-it-works.md"
    pages = {
        HERE / "settings.md": settings_page(),
        HERE / "cli.md": cli_page(),
        HERE / "metrics.md": metrics_page(),
        HERE / "mcp.md": mcp_page(),
        HERE / "alerts.md": alerts_page(),
        HERE / "modules.md": modules_page(),
        how_it_works: with_layers(how_it_works.read_text(encoding="utf-8")),
    }
    stale = []
    for path, text in pages.items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(path)
            if not check:
                path.write_text(text, encoding="utf-8")
    for path in stale:
        shown = path.relative_to(DOCS.parent)
        print(f"{'stale' if check else 'wrote'}: {shown}{' (run make docs)' if check else ''}")
    return int(check and bool(stale))


def layers() -> list[list[str]]:
    """The rooms of the package from the top down, as import-linter's contract has them."""
    settings = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))
    [contract] = [found for found in settings["tool"]["importlinter"]["contracts"] if found["type"] == "layers"]
    return [[room.removeprefix("gymlab.") for room in layer.split(" | ")] for layer in contract["layers"]]


def with_layers(page: str) -> str:
    """How it works, with the rooms and what each says of itself between the page's two marks."""
    rows = []
    for layer in layers():
        rows += [f"{room:12} {about(SOURCE / room / '__init__.py')}" for room in layer]
    listing = "\n".join(["```text", *rows, "```"])
    return re.sub(r"(<!-- layers -->\n).*?(\n<!-- /layers -->)", lambda m: m[1] + listing + m[2], page, flags=re.DOTALL)


def modules_page() -> str:
    """Every module of the package with the sentence it begins with, room by room from the bottom up."""
    parts = [
        NOTICE,
        "# Where things are",
        "Every module with its first sentence, from the bottom up: a room imports only rooms above it on this page.",
    ]
    for room in (room for layer in reversed(layers()) for room in layer):
        parts += [f"## {room}", about(SOURCE / room / "__init__.py")]
        paths = sorted(path for path in (SOURCE / room).rglob("*.py") if path.name != "__init__.py")
        rows = ((f"`{path.relative_to(SOURCE / room).with_suffix('')}`", about(path)) for path in paths)
        parts.append(table(("module", "what it holds"), rows))
    return "\n\n".join(parts) + "\n"


def about(path: Path) -> str:
    return summary(ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))))


def settings_page() -> str:
    """Every key of a recipe, block by block."""
    top = {name: field for name, field in Recipe.model_fields.items() if name not in ("name", "algorithm")}
    habits = ", ".join(
        f"{algorithm.Settings.default_n_steps or 'the time limit'} for `{name}`"
        for name, algorithm in ALGORITHMS.items()
    )
    parts = [
        NOTICE,
        "# Settings",
        "Every key of a recipe. A file has an `env` block and named `variants`; a variant holds the keys below, an "
        "`env` block of its own where it differs, `extends: VARIANT`, and one block called by its algorithm's name. "
        "On the command line a key is given as `key=value`, by its last name (`learning_rate=1e-3`) or in full "
        "(`--set ppo.learning_rate=1e-3`). `KEY+` appends to an inherited list.",
        "A *number* may be written `1e-3`, `100k`, `1M` or `10%`. *Steps* name their clock (`1M env_steps`, "
        "`10k vec_steps`); without one they count env_steps. A *schedule* is a number, `lin_X`, "
        "`{start, end, from, to, shape, min}` or `[[progress, value], ...]`. A *part* is a name or a reference "
        "(`module:Name`, `./file.py:Name`), alone or with arguments: `{frame_stack: 4}`, `{frame_stack: {k: 4}}`.",
        "## The variant",
        table(("key", "type", "default", "meaning"), map(settings_row, top, top.values())),
        f"`n_steps` by default: {habits}.",
    ]
    blocks = {name: field.annotation for name, field in Recipe.model_fields.items() if is_settings(field.annotation)}
    for name, block in blocks.items():
        if name != "algorithm":
            parts += section(f"`{name}`", block)
    for name, algorithm in ALGORITHMS.items():
        parts += section(f"`{name}`", algorithm.Settings)
    parts += ["## Wrappers and transforms", table(("name", "arguments", "kind", "meaning"), wrapper_rows())]
    return "\n\n".join(parts) + "\n"


def section(title: str, block: Any) -> list[str]:
    rows = (settings_row(name, field) for name, field in block.model_fields.items())
    return [f"## {title}", summary(block.__doc__), table(("key", "type", "default", "meaning"), rows)]


def settings_row(name: str, field: FieldInfo) -> tuple[str, ...]:
    kind = "block" if is_settings(field.annotation) else kind_of(field.annotation, field.metadata)
    return f"`{name}`", kind, default_of(field, kind), summary(field.description)


def wrapper_rows() -> Iterator[tuple[str, ...]]:
    for name in sorted(WRAPPERS):
        wrapper = load_wrapper(name)
        model = getattr(wrapper, "Settings", wrapper)
        if isinstance(model, type) and issubclass(model, Settings):
            fields = model.model_fields.items()
            given = [f"`{key}`{'' if field.is_required() else f' = `{plain(field.default)}`'}" for key, field in fields]
            kind = "transform" if model is wrapper else "wrapper"
        else:
            given = parameters_of(wrapper)
            kind = "wrapper"
        # A wrapper's module begins with how it is written in a recipe, in backquotes, and a colon; a game's need not.
        about = re.split(r"`\)?: ", summary(sys.modules[wrapper.__module__].__doc__), maxsplit=1)[-1]
        yield f"`{name}`", ", ".join(given), kind, about


def parameters_of(wrapper: Any) -> list[str]:
    names = wrapper.__init__.__code__.co_varnames[2 : wrapper.__init__.__code__.co_argcount]
    values = wrapper.__init__.__defaults__ or ()
    required = len(names) - len(values)
    defaults = zip(names[required:], values, strict=True)
    return [f"`{name}`" for name in names[:required]] + [f"`{name}` = `{value}`" for name, value in defaults]


def kind_of(annotation: Any, metadata: list[Any]) -> str:
    """A type as people say it."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return kind_of(args[0], [*args[1:], *metadata])
    if origin in (Union, types.UnionType):
        if set(args) == {Steps, ShareOfBudget}:
            return "steps or share"
        return " or ".join(kind_of(arg, metadata) for arg in args if arg is not type(None))
    if origin is Literal:
        return ", ".join(f"`{arg}`" for arg in args)
    if origin is tuple:
        return f"list of {kind_of(args[0], [])}s"
    if annotation is Schedule:
        return "schedule" + (" ≥ 0" if POSITIVE in metadata else " in [0, 1]" if SHARE in metadata else "")
    names = {int: "whole number", float: "number", bool: "true or false", str: "text", Part: "part", Steps: "steps"}
    if annotation in names:
        return names[annotation] + bounds(metadata)
    return "mapping" if origin is dict else "anything"


def bounds(metadata: list[Any]) -> str:
    for limit in [inner for item in metadata for inner in getattr(item, "metadata", [item])]:
        if isinstance(limit, annotated_types.Ge):
            return f" ≥ {limit.ge}"
        if isinstance(limit, annotated_types.Gt):
            return f" > {limit.gt}"
    return ""


def default_of(field: FieldInfo, kind: str) -> str:
    if kind == "block":
        return "see below"
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    return "–" if default in (None, (), {}) else f"`{plain(default)}`"


def plain(value: Any) -> str:
    if isinstance(value, Schedule):
        return str(value.source)
    if isinstance(value, bool):
        return str(value).lower()
    return str(list(value)) if isinstance(value, tuple) else f"{value:g}" if isinstance(value, float) else str(value)


def is_settings(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Settings) and annotation not in (Steps, Part)


def metrics_page() -> str:
    """Every metric of the catalogue, by namespace."""
    parts = [
        NOTICE,
        "# Metrics",
        "Every metric is declared once; `gymlab explain NAME` tells more of one, and [reading the numbers]"
        "(../metrics.md) what to make of them. A name that ends in `/*` stands for a family. *Looks* are taken of the "
        "first and the last update, at evaluations, every `metrics.distributions_every` updates and when an alert "
        "asks; histograms come with them and are stored beside the rows. Evaluations, times and the machine are "
        "measured now and then. The last column also says what a row holds that stands for several updates "
        "(`metrics.rows_every`).",
        metrics_table().rstrip().replace("### ", "## "),
    ]
    return "\n\n".join(parts) + "\n"


def mcp_page() -> str:
    """Every tool of the MCP server with its arguments and answer."""
    from gymlab.mcp.config import ServerConfig
    from gymlab.mcp.server import READING, WRITING, make_server
    from gymlab.mcp.tools_runs import delete_run

    server = make_server(ServerConfig(Path("runs"), allow_delete=True))
    schemas = {tool.name: tool.parameters for tool in server._tool_manager.list_tools()}
    parts = [NOTICE, MCP_HEAD]
    groups = {
        "Reading": READING,
        "Writing (on over stdio; every call is in the audit log)": WRITING,
        "Only with `--allow-delete`": (delete_run,),
    }
    for title, tools in groups.items():
        parts.append(f"## {title}")
        for tool in tools:
            parts += list(mcp_tool(tool, schemas[tool.__name__]))
    parts += ["## Resources", *mcp_resources(server), "## Prompts", *mcp_prompts(server)]
    return "\n\n".join(parts) + "\n"


def mcp_tool(tool: Callable[..., Any], schema: dict[str, Any]) -> Iterator[str]:
    answer = inspect.signature(tool, eval_str=True).return_annotation
    yield f"### {tool.__name__}"
    keys = ", ".join(f"`{field.alias or name}`" for name, field in answer.model_fields.items())
    yield f"{one_line(tool.__doc__)} Answers `{answer.__name__}`: {keys}."
    rows = [
        f"| `{name}` | {json_kind(field)} | {json_default(name, field, schema)} | {field.get('description', '')} |"
        for name, field in schema["properties"].items()
    ]
    if rows:
        yield "\n".join(["| argument | kind | default | meaning |", "| --- | --- | --- | --- |", *rows])


def json_kind(field: dict[str, Any]) -> str:
    known = next(option for option in field.get("anyOf", [field]) if option.get("type") != "null")
    if "enum" in known:
        return " ".join(f"`{value}`" for value in known["enum"])
    names = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}
    if known.get("type") == "array":
        return f"list, at most {known['maxItems']}"
    low, high = known.get("minimum"), known.get("maximum")
    bounds = f" {low:g} to {high:g}" if low is not None and high is not None else ""
    return names.get(known.get("type", ""), "value") + bounds


def json_default(name: str, field: dict[str, Any], schema: dict[str, Any]) -> str:
    if name in schema.get("required", ()):
        return "required"
    value = field.get("default")
    return "–" if value in (None, "") else f"`{str(value).lower() if isinstance(value, bool) else value}`"


def mcp_resources(server: Any) -> list[str]:
    manager = server._resource_manager
    known = {str(entry.uri): entry.description for entry in manager.list_resources()}
    known |= {entry.uri_template: entry.description for entry in manager.list_templates()}
    return ["\n".join(f"- `{uri}`: {about}" for uri, about in sorted(known.items()))]


def mcp_prompts(server: Any) -> list[str]:
    prompts = server._prompt_manager.list_prompts()
    return ["\n".join(f"- `{prompt.name}`: {one_line(prompt.description)}" for prompt in prompts)]


def one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def cli_page() -> str:
    """Every command with its arguments and options."""
    parts = [
        NOTICE,
        "# Commands",
        "`gymlab COMMAND --help` prints the same. Exit codes: 0 done, 1 the run failed, 2 the input is wrong, 130 and "
        "143 stopped by a signal after a clean checkpoint.",
    ]
    for name, function in commands("gymlab", app):
        about, _, example = inspect.getdoc(function).partition("Example: ")  # type: ignore[union-attr]
        given = list(parameters(function))
        usage = " ".join([name, *(p.shown for p in given if p.positional), *(["[OPTIONS]"] if given else [])])
        parts += [f"## {name}", " ".join(about.split()), f"```text\n{usage}\n```"]
        if given:
            rows = ((f"`{p.shown}`", p.value, p.default, p.help) for p in given)
            parts.append(table(("parameter", "value", "default", "meaning"), rows))
        parts.append(f"Example: `{' '.join(example.split())}`")
    return "\n\n".join(parts) + "\n"


def commands(name: str, group: typer.Typer) -> Iterator[tuple[str, Any]]:
    """What a group does by itself, its commands, and those of the groups below it."""
    alone = group.registered_callback
    if alone is not None and alone.invoke_without_command is True:
        yield name, alone.callback
    for command in group.registered_commands:
        assert command.callback is not None
        yield f"{name} {command.name or command.callback.__name__.replace('_', '-')}", command.callback
    for below in group.registered_groups:
        assert below.typer_instance is not None
        yield from commands(f"{name} {below.name}", below.typer_instance)


class Parameter(NamedTuple):
    """An argument or option as a row of a table."""

    shown: str
    value: str
    default: str
    help: str
    positional: bool


def parameters(function: Any) -> Iterator[Parameter]:
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        if get_origin(hints[name]) is not Annotated:
            continue  # the context
        base, info = get_args(hints[name])[:2]
        kinds = [kind for kind in get_args(base) if kind is not type(None)] or [base]
        several = any(get_origin(kind) is list for kind in [base, *kinds])
        required = parameter.default is inspect.Parameter.empty
        if isinstance(info, ArgumentInfo):
            bare = (info.metavar or name.upper()).strip("[]").removesuffix(" ...")
            bare = f"{bare} ..." if several else bare
            shown, value = bare if required else f"[{bare}]", ""
        else:
            named = [text for text in (info.default, *(info.param_decls or ())) if isinstance(text, str)]
            shown = ", ".join(named) or f"--{name.replace('_', '-')}"
            value = "" if bool in kinds else info.metavar or {int: "N", Path: "PATH"}.get(kinds[0], "TEXT")
        default = "required" if required else f"`{parameter.default}`" if parameter.default else "–"
        default = "`0`" if parameter.default == 0 and int in kinds and bool not in kinds else default
        yield Parameter(shown, value, default, summary(info.help), isinstance(info, ArgumentInfo))


def summary(text: str | None) -> str:
    """The first paragraph in one line."""
    return " ".join((text or "").split("\n\n")[0].split())


def table(head: tuple[str, ...], rows: Any) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
