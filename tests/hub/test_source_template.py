"""Templates of Python source, worked out by hand."""

from __future__ import annotations

import pytest

from gymlab.hub.source_template import Blanks, fill

pytestmark = pytest.mark.fast

TEXT = """\
first
#: if a
    a
    #: if b and not c
    a and b, not c
    #: end
#: elif b or c
    b or c
#: else
    none
#: end
last[[a|, a]][[not a|, $name]]"""


@pytest.mark.parametrize(
    ("flags", "lines"),
    [
        ("", ["first", "none", "last, x"]),
        ("a", ["first", "a", "last, a"]),
        ("ab", ["first", "a", "a and b, not c", "last, a"]),
        ("abc", ["first", "a", "last, a"]),
        ("b", ["first", "b or c", "last, x"]),
        ("c", ["first", "b or c", "last, x"]),
    ],
)
def test_flags_choose_the_lines(flags, lines):
    blanks = Blanks({flag: flag in flags for flag in "abc"}, {"name": "x"})
    assert [line.strip() for line in fill(TEXT, blanks).splitlines()] == lines


def test_text_within_a_line_may_hold_brackets():
    assert fill("f(x[[a|, y[0]]][[not a|, z]])", Blanks({"a": True}, {})) == "f(x, y[0])"


@pytest.mark.parametrize("text", ["#: if unknown\n#: end", "$unknown"])
def test_an_unknown_name_is_an_error(text):
    with pytest.raises(KeyError):
        fill(text, Blanks({}, {}))
