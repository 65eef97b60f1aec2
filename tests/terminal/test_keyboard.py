"""The escape parser of the one key reader."""

import pytest

from gymlab.terminal.keyboard import parse_keys

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        ("p", ["p"]),
        ("pe", ["p", "e"]),
        ("a\x1b[C\x1bOD q\n", ["a", "right", "left", "space", "q", "enter"]),
        ("\x1b", ["escape"]),
        ("\x1b[15~\x1bOPs\x1bx\x1b[1;5Pd", ["s", "d"]),
    ],
)
def test_parse_keys_names_special_keys_and_drops_other_sequences(typed, keys):
    assert parse_keys(typed) == (keys, "")


@pytest.mark.parametrize("unfinished", ["\x1b[", "\x1bO", "\x1b[1;"])
def test_parse_keys_returns_an_unfinished_escape_sequence_for_the_next_call(unfinished):
    assert parse_keys(f"d{unfinished}") == (["d"], unfinished)
    assert parse_keys(unfinished + "A") == (["up"] if len(unfinished) == 2 else [], "")
