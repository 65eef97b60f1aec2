"""docs/requirements.md has every requirement once, with a status we know and something that shows it."""

import re

import pytest
from tests.docs.snippets import ROOT

pytestmark = pytest.mark.fast

COUNTS = {
    "A": 15, "B": 9, "C": 10, "D": 16, "E": 4, "F": 7, "G": 10, "H": 12, "I": 19, "J": 13, "K": 10, "L": 8, "M": 10,
    "N": 6, "O": 9, "P": 5, "Q": 8, "R": 5, "S": 11, "T": 10, "U": 3,
}  # fmt: skip
IDS = [f"{group}{number:02}" for group, count in COUNTS.items() for number in range(1, count + 1)]
PAGE = (ROOT / "docs/requirements.md").read_text(encoding="utf-8")
ROWS = [row.split(" | ") for row in re.findall(r"^\| ([A-U]\d\d \| .*) \|$", PAGE, re.MULTILINE)]


def test_there_are_two_hundred_requirements_each_once_and_in_order():
    assert len(IDS) == 200
    assert [row[0] for row in ROWS] == IDS


def test_every_status_is_one_of_three_and_what_is_done_is_shown():
    assert {row[2] for row in ROWS} <= {"done", "partly", "open"}
    assert [row[0] for row in ROWS if row[2] != "open" and not re.search(r"`(tests/|gymlab |make )", row[3])] == []
    assert [row[0] for row in ROWS if row[2] == "open" and "issue" not in row[3]] == []


def test_the_summary_counts_what_the_tables_say():
    for status in ("done", "partly", "open"):
        count = sum(row[2] == status for row in ROWS)
        assert re.search(rf"\b{count} {status}\b", PAGE), f"{count} {status}"
