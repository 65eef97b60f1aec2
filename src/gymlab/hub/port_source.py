"""The source of a compiled env as plain functions and constants: what its module says, without classes and imports."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
import textwrap
from typing import Any, NamedTuple

from gymlab.envs.ports.port import JaxEnv

_METHODS = ("reset", "step", "observe")
_KWARG = "ENV_"  # how the constants begin that hold the env's keyword arguments


class _Definition(NamedTuple):
    """A constant, class or function of a module."""

    line: int
    text: str
    names: frozenset[str]  # that it uses


def port_source(port: JaxEnv) -> str:
    """`reset`, `step` and `observe` of a port as functions, with the constants, classes and functions they use."""
    fields = {field.name for field in dataclasses.fields(port)}  # type: ignore[arg-type]
    methods: dict[str, str] = {}
    used: set[tuple[str, str]] = set()  # (module, name)
    kwargs: set[str] = set()
    waiting = list(_METHODS)
    while waiting:
        name = waiting.pop(0)
        if name in methods:
            continue
        method = getattr(type(port), name)
        text = textwrap.dedent(inspect.getsource(method))
        of_self = set(re.findall(r"\bself\.(\w+)", text))
        kwargs |= of_self & fields
        waiting += sorted(of_self - fields)
        used |= {(method.__module__, other) for other in _names(ast.parse(text))}
        methods[name] = _as_function(text, fields, inspect.getdoc(getattr(JaxEnv, name, None)))
    found = _definitions(used)
    constants = [f"{_KWARG}{name.upper()} = {getattr(port, name)!r}" for name in sorted(kwargs)]
    constants += [text for text in found if not text.startswith(("def ", "class "))]
    blocks = ["\n".join(constants)] if constants else []
    blocks += [text for text in found if text.startswith("class ")]
    blocks += [text for text in found if text.startswith("def ")]
    blocks += [text for name, text in methods.items() if name not in _METHODS]
    return "\n\n\n".join([*blocks, *(methods[name] for name in _METHODS)])


def state_type(port: JaxEnv) -> str:
    """The class of a port's state, by name."""
    hint: Any = inspect.get_annotations(type(port).reset)["return"]
    return str(hint)


def _as_function(text: str, fields: set[str], doc: str | None) -> str:
    """A method as a function: keyword arguments of the env are constants, other methods are functions."""
    text = re.sub(r"\(self(, )?", "(", text, count=1)
    text = re.sub(r"\bself\.(\w+)", lambda m: f"{_KWARG}{m[1].upper()}" if m[1] in fields else m[1], text)
    text = re.sub(r"^ +del \w+\n", "", text, flags=re.MULTILINE)
    head, _, body = text.rstrip().partition("\n")
    if doc is None or body.lstrip().startswith('"""'):
        return f"{head}\n{body}"
    return f'{head}\n    """{doc.splitlines()[0]}"""\n{body}'


def _definitions(used: set[tuple[str, str]]) -> list[str]:
    """What these names of modules are, and all that they use in turn, module by module in their own order."""
    found: dict[tuple[str, str], _Definition] = {}
    waiting = sorted(used)
    while waiting:
        module, name = waiting.pop()
        home, definition = _find(module, name)
        if definition is None or (home, name) in found:
            continue
        assert name not in {other for _, other in found}, f"two ports call something {name}"
        found[home, name] = definition
        waiting += [(home, other) for other in definition.names]
    return [found[place].text for place in sorted(found, key=lambda place: (place[0], found[place].line))]


def _find(module: str, name: str) -> tuple[str, _Definition | None]:
    """The module of gymlab's envs that defines what `module` calls `name`; None where it is anything else."""
    tree, lines = _parsed(module)
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
            home = node.module or ""
            return _find(home, name) if home.startswith("gymlab.envs") else (module, None)
        if name in _defined(node):
            text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
            return module, _Definition(node.lineno, text, frozenset(_names(node)))
    return module, None


def _parsed(module: str) -> tuple[ast.Module, list[str]]:
    source = inspect.getsource(sys.modules[module])
    return ast.parse(source), source.splitlines()


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _names(node: ast.AST) -> set[str]:
    """The global names that some code may use; annotations are strings in it."""
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
