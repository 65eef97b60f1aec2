"""The search for duplicate code in `make check`."""

import importlib.util
from pathlib import Path

import pytest

pytestmark = pytest.mark.fast

TOOL = Path(__file__).parents[2] / "tools/duplicates.py"
BODY = """
total = 0
for index, value in enumerate(values):
    if value > limit:
        total += index * value
print(total)
"""
LAID_OUT_OTHERWISE = '''
"""A docstring."""
import sys

total = 0  # a comment
for index, value in enumerate(
    values
):
    if value > limit:

        total += index * value
print(total)
'''


@pytest.fixture(scope="module")
def duplicates():
    spec = importlib.util.spec_from_file_location("duplicates", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def find(duplicates, least, **sources):
    return duplicates.find_duplicates({name: duplicates.tokens_of(text) for name, text in sources.items()}, least)


def test_equal_code_is_found_whatever_its_layout_comments_and_docstrings(duplicates):
    (found,) = find(duplicates, 10, a="first = 1\n" + BODY, b=LAID_OUT_OTHERWISE)
    assert (found.one, found.other) == ("a:3", "b:5")
    assert found.tokens == len(duplicates.tokens_of(BODY))


def test_other_names_and_short_pieces_are_no_duplicates(duplicates):
    assert find(duplicates, 10, a=BODY, b=BODY.replace("total", "count").replace("value", "x")) == []
    assert find(duplicates, 100, a=BODY, b=BODY) == []


def test_places_that_overlap_are_no_duplicates_and_a_copied_function_is_one(duplicates):
    assert find(duplicates, 10, a="table = [" + "(0, 1), " * 3 + "]\n") == []
    copied = "def one():\n    return [a + b for a in c for b in d]\n"
    assert len(find(duplicates, 10, a=copied + copied.replace("one", "two"))) == 1


def test_the_tool_reads_the_whole_package(duplicates):
    found = duplicates.duplicates_in(TOOL.parents[1] / "src/gymlab/experience", least=10)
    assert all(place.partition(":")[0].endswith(".py") for one in found for place in (one.one, one.other))
