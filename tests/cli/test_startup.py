"""What the command knows of where it was started."""

import sys
from types import SimpleNamespace

import pytest

from gymlab.cli import startup

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("terminal", "ci", "parent", "outlived"),
    [
        (True, "", 4711, True),
        (True, "false", 4711, True),
        (True, "true", 4711, False),
        (False, "", 4711, False),  # a pipe
        (True, "", 1, False),  # the command of a container, which ends with it
    ],
)
def test_films_are_left_to_their_process_only_at_a_terminal(monkeypatch, terminal, ci, parent, outlived):
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(isatty=lambda: terminal))
    monkeypatch.setattr(startup.os, "getppid", lambda: parent)
    monkeypatch.setenv("CI", ci)
    assert startup.outlived_by_children() is outlived
