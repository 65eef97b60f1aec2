"""What a terminal shows: the right numbers, in the right order and colours, in whatever room there is."""

import io
import json
import math
import re
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest

from gymlab.alerts.alert import Alert, Step
from gymlab.core.clock import Clock
from gymlab.features.console import make_console, snapshot
from gymlab.features.console.layout import Choice, frame, groups
from gymlab.features.console.lines import JsonLines, Lines
from gymlab.features.console.live import Live
from gymlab.features.console.view import SAMPLES, History, View
from gymlab.metrics import catalogue
from gymlab.metrics.metric import HEADLINE
from gymlab.terminal.ansi import plain, written
from gymlab.terminal.screen import Screen
from gymlab.training.events import (
    AlertCleared,
    AlertRaised,
    KeyPressed,
    Measured,
    Paused,
    Recorded,
    Stopping,
    Updated,
    UpdateRow,
)

NAMES = [metric.name.replace("*", "part") for metric in catalogue.METRICS if "/" in metric.name]
NAMES = [name for name in NAMES if not name.startswith(("eval/", "score/"))]  # those are measured now and then
STEP = Step(40, 1280, 10240)
HIGH_KL = Alert(
    "kl-too-high", "warning", "updates are too large", "opt/approx_kl", "opt/approx_kl 0.21 > 0.05", {}, 3, 40, STEP,
    STEP, True, "Lower the learning rate.", {"ppo.learning_rate": 1e-4},
)  # fmt: skip
LOW_RETURN = replace(HIGH_KL, id="return-stalled", severity="critical", metric="roll/return_mean", overrides={})
CONTROL = SimpleNamespace(interrupted=False)


def clock(updates):
    return Clock(updates, 32 * updates, 256 * updates, updates, 0.5 * updates)


def updated(updates, **changes):
    values = dict.fromkeys(NAMES, 0.5) | {"time/progress": updates / 400, "roll/return_window": 100.0}
    values |= {name.replace("__", "/"): value for name, value in changes.items()}
    rows = (UpdateRow(clock(updates), values),)
    return Updated(clock(updates), rows), Recorded(clock(updates), rows)


def show(view, events):
    view.update(events[0])
    view.record(events[1])


def deliver(live, *events):
    for event in events:
        live(event, CONTROL)


@pytest.fixture
def view():
    view = View()
    for updates in (1, 2, 3):
        show(view, updated(updates, roll__return_mean=10.0 * updates**2, opt__value_loss=float(updates)))
        view.draw()
    return view


def names_in(view, lines):
    """Those of the metrics a table shows, in its order (one panel)."""
    labels = {name.partition("/")[2]: name for name in view.values}
    words = [re.sub(r"^\w* +", "", plain(line)).split() for line in lines]
    return [labels[word[0]] for word in words if word and word[0] in labels]


@pytest.mark.parametrize("size", [(80, 24), (100, 40), (200, 50), (300, 12), (40, 10), (12, 3), (1, 1)])
@pytest.mark.parametrize("choice", [Choice(), Choice(advice=True, help=True), Choice(only="opt"), Choice(only="-")])
def test_a_frame_fits_into_its_terminal(view, size, choice):
    view.alerts = {alert.id: alert for alert in (HIGH_KL, LOW_RETURN)}
    columns, rows = size
    lines = frame(view, choice, columns, rows)
    assert len(lines) <= max(rows - 1, 1)
    assert all(len(written(line, columns, colour=False)) <= columns for line in lines)


def test_a_small_terminal_shows_headlines_only_and_in_the_catalogues_order(view):
    names = names_in(view, frame(view, Choice(), 80, 24))
    assert len(names) > 12
    assert all(catalogue.metric(name).priority <= HEADLINE for name in names)
    assert names == catalogue.ordered(names)
    assert names[:2] == ["roll/return_mean", "roll/return_std"]


def test_a_wide_terminal_shows_groups_side_by_side(view):
    first = plain(frame(view, Choice(), 200, 50)[2])
    assert re.match(r"roll +return_mean .* (opt|eval|env|time) +\S+ ", first)


def test_one_group_alone_gets_all_the_room(view):
    names = names_in(view, frame(view, Choice(only="opt"), 80, 24))
    assert {catalogue.metric(name).namespace for name in names} == {"opt"}
    assert max(catalogue.metric(name).priority for name in names) > HEADLINE


def test_every_value_has_the_precision_the_catalogue_gives_it():
    row = {
        "opt/entropy": 0.123456,
        "roll/return_mean": 12.3456,
        "time/sps": 123456.0,
        "sys/rss": 2.5e9,
        "mine/x": 1 / 3,
    }
    assert snapshot(row) == {
        "roll/return_mean": "12.35", "opt/entropy": "0.1235", "time/sps": "123.5k", "sys/rss": "2.5 GB",
        "mine/x": "0.3333",
    }  # fmt: skip


def test_a_highlighted_row_shows_its_change_its_curve_and_its_alert(view):
    view.alerts = {alert.id: alert for alert in (HIGH_KL, LOW_RETURN)}
    bar, counts, returns, *_ = (written(line, 80) for line in frame(view, Choice(), 80, 24))
    assert bar == (f"  1% \x1b[2m{'─' * 56}\x1b[0m \x1b[34m0:01\x1b[0m · eta 3:18")
    assert counts == ("96 vec_steps (768 env) · 3 episodes · \x1b[1mreturn 90.00\x1b[0m · 512 steps/s")
    assert returns == (
        "\x1b[2mroll  \x1b[0m\x1b[1mreturn_mean                 90.00 \x1b[0m\x1b[32m   +50.00 \x1b[0m"
        "\x1b[32m▁▄█    \x1b[0m\x1b[1;31m ! return-stalled     \x1b[0m"
    )


def test_changes_are_coloured_by_what_is_better(view):
    lines = {line[1].text.split()[0]: line for line in frame(view, Choice(only="opt"), 80, 24)[2:-1]}
    change = lines["value_loss"][2]
    assert (change.text.strip(), change.style) == ("+1", "red")
    assert lines["entropy"][2].text.strip() == ""


def test_what_is_measured_now_and_then_changes_since_it_was_last_measured(view):
    view.measure(Measured(clock(3), {"eval/greedy_mean": 100.0}))
    view.measure(Measured(clock(3), {"eval/greedy_mean": 130.0}))
    show(view, updated(4))
    view.draw()
    assert view.change("eval/greedy_mean") == 30.0


def test_a_history_spans_the_whole_run_in_bounded_room():
    history = History()
    for i in range(10_000):
        history.add({"x": float(i)})
    values = history.of("x")
    assert SAMPLES <= len(values) < 2 * SAMPLES
    assert values[0] == 0
    assert values[-1] > 9_500
    assert len({b - a for a, b in pairwise(values)}) == 1


def test_lines_tell_an_alert_in_one_line(capsys):
    console = Lines([])
    console(AlertRaised(clock(375), HIGH_KL), CONTROL)
    console(AlertCleared(clock(376), HIGH_KL), CONTROL)
    told = "warning kl-too-high at 12k vec_steps: opt/approx_kl 0.21 > 0.05 -> try ppo.learning_rate=0.0001\n"
    assert capsys.readouterr().out == told


def test_json_lines_tell_alerts_too(capsys):
    console = JsonLines([])
    console(AlertRaised(clock(375), HIGH_KL), CONTROL)
    console(AlertCleared(clock(376), HIGH_KL), CONTROL)
    raised, cleared = map(json.loads, capsys.readouterr().out.splitlines())
    assert (raised["event"], raised["vec_steps"], raised["alert"]["id"]) == ("alert", 12000, "kl-too-high")
    assert (cleared["event"], cleared["updates"]) == ("alert cleared", 376)


def test_output_that_is_no_terminal_gets_lines(capsys, monkeypatch):
    assert isinstance(make_console("people", [])._shown, Lines)
    monkeypatch.setattr("sys.stdout", Paper(80, 24))
    assert isinstance(make_console("people", [])._shown, Live)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(make_console("people", [])._shown, Lines)


class Paper(io.StringIO):
    """A terminal that keeps what is to be seen: just enough of one for what a `Screen` writes."""

    encoding = "utf-8"

    def __init__(self, columns, rows):
        super().__init__()
        self.resize(columns, rows)

    def resize(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.cells, self.x, self.y, self.scrolled = [[] for _ in range(rows)], 0, rows - 1, []

    def isatty(self):
        return True

    def fileno(self):
        raise OSError("not a file")

    def write(self, text):
        for part in re.findall(r"\x1b\[[?0-9;]*[A-Za-z]|[^\x1b]", text):
            if part.startswith("\x1b"):
                self._escape(part[-1], part[2:-1])
            elif part == "\r":
                self.x = 0
            elif part == "\n":
                self._down()
            else:
                self._put(part)
        return len(text)

    def _escape(self, kind, number):
        row = self.cells[self.y]
        if kind == "A":
            assert self.y >= int(number), "the frame has left the screen"
            self.y -= int(number)
        elif kind == "K":
            del row[self.x :]
        elif kind == "H":
            self.x = self.y = 0
        elif kind == "J":
            del row[self.x :]
            for below in self.cells[0 if number == "2" else self.y + 1 :]:
                below.clear()

    def _put(self, letter):
        if self.x == self.columns:
            self.x = 0
            self._down()
        row = self.cells[self.y]
        row.extend(" " * (self.x + 1 - len(row)))
        row[self.x] = letter
        self.x += 1

    def _down(self):
        if self.y == self.rows - 1:
            self.scrolled.append("".join(self.cells.pop(0)))
            self.cells.append([])
        else:
            self.y += 1

    def seen(self):
        return ["".join(row).rstrip() for row in self.cells]


@pytest.fixture
def paper(monkeypatch):
    paper = Paper(80, 24)
    monkeypatch.setattr(Screen, "size", lambda self: (paper.columns, paper.rows))
    return paper


def live_on(paper, monkeypatch):
    monkeypatch.setattr("sys.stdout", paper)
    live = Live([])
    live._screen.start()
    return live


def test_lines_are_printed_above_a_table_that_stays_in_place(paper, monkeypatch):
    live = live_on(paper, monkeypatch)
    live._draw()
    assert paper.seen()[-1] == "compiling ..."
    for updates in range(1, 30):
        deliver(live, *updated(updates))
        live._draw()
        print(f"line {updates}")
    live(AlertRaised(clock(30), HIGH_KL), CONTROL)
    live._draw()
    seen = paper.seen()
    text = "\n".join([*paper.scrolled, *seen])
    assert [text.count(f"line {updates}\n") for updates in range(1, 30)] == [1] * 29
    assert text.count("warning kl-too-high at 960 vec_steps") == 1
    assert text.count("eta") == text.count("episodes ·") == 1
    assert seen[-1] == "1 alert (a: advice)  ? keys"
    assert any("approx_kl" in line and line.endswith("! kl-too-high") for line in seen)
    live(Stopping(clock(30), "budget"), CONTROL)
    assert "eta" not in "\n".join(paper.seen())
    print("after")
    assert "after" in "\n".join(paper.seen())


def test_a_terminal_that_changes_its_size_is_drawn_anew(paper, monkeypatch):
    live = live_on(paper, monkeypatch)
    print("kept")
    deliver(live, *updated(1))
    for columns, rows in ((200, 50), (60, 12), (30, 6), (100, 40)):
        paper.resize(columns, rows)
        live._draw()
        live._draw()
        text = "\n".join(paper.seen())
        assert text.count("vec_steps (") == 1
        assert "kept" in text
        assert paper.scrolled == []
    live(Stopping(clock(1), "budget"), CONTROL)


def test_keys_change_what_is_shown(paper, monkeypatch):
    live = live_on(paper, monkeypatch)
    deliver(live, *updated(1))
    live(AlertRaised(clock(1), HIGH_KL), CONTROL)

    def press(key):
        live(KeyPressed(clock(1), key), CONTROL)
        return "\n".join(paper.seen())

    assert "s stop  a advice  g group  1-" in press("?")
    assert "s stop" not in press("?")
    assert "\nkl-too-high: opt/approx_kl 0.21 > 0.05 -> try ppo.learning_rate=0.0001\n" in press("a")
    assert "\nkl-too-high: " not in press("a")
    present = groups(live.view.values)
    shown = [press("g") for _ in [*present, "none", "all"]]
    assert "roll  return_mean" in shown[0]
    assert "opt " not in shown[0]
    assert "  entropy" not in shown[-2]
    assert "roll  return_mean" in shown[-1]
    assert "return_mean" not in press("1")
    assert "return_mean" in press("1")
    press("\x0c")
    press("unknown")
    live(Paused(clock(1), 65.0), CONTROL)
    live._draw()
    assert "paused for 1:05: p goes on, s stops" in "\n".join(paper.seen())
    live(Stopping(clock(1), "interrupted by SIGINT", True), CONTROL)


def test_no_colour_where_none_is_wanted(paper, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    written_to = []
    monkeypatch.setattr(paper, "write", written_to.append)
    live = Live([])
    live._screen.start()
    deliver(live, *updated(1, roll__return_mean=math.nan))
    live(Stopping(clock(1), "budget"), CONTROL)
    assert "m" not in {code[-1] for code in re.findall(r"\x1b\[[?0-9;]*[A-Za-z]", "".join(written_to))}
