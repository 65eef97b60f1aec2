"""The live table of many runs: redrawn on a terminal, messages and summaries elsewhere."""

import io

import pytest

from gymlab.terminal.progress_table import ProgressTable, RunRow, format_totals, run_lines, table_mode
from gymlab.terminal.screen import Screen, plain_text
from tests.terminal.fake_terminal import FakeTerminal

pytestmark = pytest.mark.fast

ROWS = [
    RunRow("seed 0", "running", 0.5, 12_000, 21.5, None, 1_234.5, {"kl-too-high": "warning"}),
    RunRow("seed 1"),
]


def lines(height):
    return run_lines(ROWS, format_totals(ROWS, 65), height)


def test_rows_are_aligned_under_their_headers():
    assert [plain_text(line) for line in lines(24)] == [
        "        status    progress          env_steps   return evaluated  steps/s",
        "seed 0  running   ██████······  50%      12k      21.5         -    1.23k  kl-too-high",
        "seed 1  waiting   ············   0%        0         -         -        -  ",
        "1:05  1 running, 1 waiting  1.23k env_steps/s",
    ]


def test_a_low_terminal_shows_only_the_running_runs():
    assert [plain_text(line)[:6] for line in lines(4)] == ["      ", "seed 0", "1:05  "]


def test_a_live_table_is_removed_at_the_end_and_its_messages_stay(monkeypatch):
    terminal = FakeTerminal(90, 10)
    monkeypatch.setattr(Screen, "size", lambda self: (terminal.columns, terminal.rows))
    with ProgressTable(terminal, table_mode("people", terminal), lines) as table:
        table.print("note", "dim")
        table.update(now=True)
        assert terminal.visible()[-1].startswith("1:05  1 running")
    assert [line for line in terminal.visible() if line] == ["note"]


@pytest.mark.parametrize(("output", "printed"), [("people", "note\nsummary\n"), ("json", ""), ("quiet", "")])
def test_output_that_is_not_a_terminal_gets_messages_and_summaries(output, printed, monkeypatch):
    monkeypatch.setattr("gymlab.terminal.progress_table.SUMMARY_SECONDS", 0.0)
    stream = io.StringIO()
    with ProgressTable(stream, table_mode(output, stream), lines, lambda: "summary") as table:
        table.print("note")
        table.update()
    assert stream.getvalue() == printed
