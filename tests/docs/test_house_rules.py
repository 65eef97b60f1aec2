"""What CONTRIBUTING says of the code's shape holds; ruff, mypy and import-linter check the rest in `make check`."""

import ast
import re

import pytest
from tests.docs.snippets import ROOT

MODULES = sorted((ROOT / "src/gymlab").rglob("*.py"))
FORBIDDEN_NAMES = {"utils", "util", "common", "helpers", "misc"}


def functions(module):
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.end_lineno - node.lineno + 1


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT / "src/gymlab")))
def test_no_module_is_long_and_no_function_in_it(module):
    assert len(module.read_text(encoding="utf-8").splitlines()) <= 500
    assert [f"{name}: {length} lines" for name, length in functions(module) if length > 80] == []


def test_nothing_is_put_off_without_an_issue_and_nothing_is_called_utils():
    assert [str(path) for path in MODULES if FORBIDDEN_NAMES & {path.stem, path.parent.name}] == []
    put_off = [path.name for path in MODULES if re.search(r"#.*\b(TODO|FIXME|XXX)\b", path.read_text(encoding="utf-8"))]
    assert put_off == []


def test_one_module_looks_for_recipes():
    """Whoever trains, smokes, inspects or plays asks recipes/resolve.py, so that all find the same file."""
    seekers = [
        str(path.relative_to(ROOT / "src/gymlab"))
        for path in MODULES
        if re.search(r"glob\([^)]*ya?\*?ml|PACKAGED", path.read_text(encoding="utf-8"))
    ]
    assert seekers == ["recipes/resolve.py"]


def test_an_algorithm_stays_under_200_lines():
    long = {path.name: len(path.read_text().splitlines()) for path in MODULES if path.parent.name == "algorithms"}
    assert {name: lines for name, lines in long.items() if lines >= 200} == {}
