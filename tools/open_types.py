"""Counts the types that say nothing: `Any`, and `object` bare in an annotation."""

import ast
import re
from collections.abc import Iterator


def open_types(text: str, tree: ast.AST) -> tuple[int, int]:
    """How often a module's text names Any, imports included, and how often its annotations name object."""
    bare = sum(
        isinstance(part, ast.Name) and part.id == "object" for whole in annotations(tree) for part in ast.walk(whole)
    )
    return len(re.findall(r"\bAny\b", text)), bare


def annotations(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(returns=found) | ast.AsyncFunctionDef(returns=found) if found is not None:
                yield found
            case ast.arg(annotation=found) | ast.AnnAssign(annotation=found) if found is not None:
                yield found
