"""What CI refuses of the source's shape; tools/house_report.py reports the rest, `make check` does types and layers."""

import ast
import re
from collections import defaultdict

import pytest
from tests.docs.snippets import ROOT
from tools.open_types import open_types

pytestmark = pytest.mark.fast

SOURCE = ROOT / "src/gymlab"
MODULES = sorted(SOURCE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in MODULES}
FORBIDDEN_NAMES = {"utils", "util", "common", "helpers", "misc"}
# Words of a dialect that nobody outside speaks: say message, options, requested, failing, status, targets ...
PRIVATE_WORDS = frozenset(
    ["told", "given", "wanted", "sick", "looks", "seat", "shelf", "desk", "witness", "aside", "standing", "sought"]
)
ALGORITHM_LINES = 250
OPEN_TYPES = 10  # Any and bare object per 1,000 lines; 32 before the borders had types


def identifiers(tree):
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.Name():
                yield node.lineno, node.id
            case ast.Attribute():
                yield node.lineno, node.attr
            case ast.arg() | ast.keyword() if node.arg:
                yield node.lineno, node.arg


def test_no_identifier_holds_a_private_word():
    found = [
        f"{path.relative_to(SOURCE)}:{line} {name}"
        for path, tree in TREES.items()
        for line, name in identifiers(tree)
        if PRIVATE_WORDS & {word.lower() for word in re.split(r"_|(?<=[a-z])(?=[A-Z])", name)}
    ]
    assert found == []


def json_keys(tree):
    """String constants used as keys: of dict displays, of subscripts, of aliases."""
    for node in ast.walk(tree):
        keys = []
        match node:
            case ast.Dict():
                keys = node.keys
            case ast.Subscript():
                keys = [node.slice]
            case ast.keyword() if node.arg and node.arg.endswith("alias"):
                keys = [node.value]
        for key in keys:
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.lineno, key.value


def test_no_key_of_a_file_or_of_json_holds_a_private_word():
    found = [
        f"{path.relative_to(SOURCE)}:{line} {key}"
        for path, tree in TREES.items()
        for line, key in json_keys(tree)
        if PRIVATE_WORDS & set(re.split(r"[^a-z]", key.lower()))
    ]
    assert found == []


def test_types_that_say_nothing_are_rare():
    texts = {path: path.read_text(encoding="utf-8") for path in MODULES}
    counted = {path: sum(open_types(text, TREES[path])) for path, text in texts.items()}
    lines = sum(text.count("\n") for text in texts.values())
    most = sorted(counted, key=counted.__getitem__, reverse=True)[:5]
    where = ", ".join(f"{path.relative_to(SOURCE)} {counted[path]}" for path in most)
    assert 1000 * sum(counted.values()) / lines <= OPEN_TYPES, where


def test_open_types_are_counted_in_annotations_and_not_in_code():
    text = "from typing import Any\ndef f(x: object, y: list[object]) -> Any: return object()\nz: Any = object\n"
    assert open_types(text, ast.parse(text)) == (3, 2)


def test_a_class_name_means_one_class():
    places = defaultdict(list)
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(SOURCE)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_every_module_says_in_one_sentence_what_it_holds():
    silent = [str(path.relative_to(SOURCE)) for path, tree in TREES.items() if not ast.get_docstring(tree)]
    assert silent == []


def test_nothing_is_put_off_without_an_issue_and_nothing_is_called_utils():
    assert [str(path) for path in MODULES if FORBIDDEN_NAMES & {path.stem, path.parent.name}] == []
    put_off = [path.name for path in MODULES if re.search(r"#.*\b(TODO|FIXME|XXX)\b", path.read_text(encoding="utf-8"))]
    assert put_off == []


def test_one_module_searches_for_recipe_files():
    """Commands that train, smoke, inspect or play ask it, so that all find the same file."""
    searching = [
        str(path.relative_to(SOURCE))
        for path in MODULES
        if re.search(r"glob\([^)]*ya?\*?ml|PACKAGED", path.read_text(encoding="utf-8"))
    ]
    assert len(searching) == 1
    assert searching[0].startswith("recipes/")


def test_an_algorithm_stays_short():
    lengths = {path.name: len(path.read_text().splitlines()) for path in MODULES if path.parent.name == "algorithms"}
    assert {name: lines for name, lines in lengths.items() if lines > ALGORITHM_LINES} == {}
