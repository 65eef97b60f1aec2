"""What consoles show: the right numbers, order and colours at every terminal size."""

import json
import math
import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest

from gymlab.alerts.engine import Alert, Step
from gymlab.core.clock import Clock
from gymlab.features.console import format_metrics, make_console
from gymlab.features.console.layout import TableSelection, frame, groups
from gymlab.features.console.lines import JsonLinesConsole, PlainConsole
from gymlab.features.console.live import LiveConsole
from gymlab.features.console.view import SAMPLES, MetricHistory, RunView
from gymlab.metrics import catalogue
from gymlab.metrics.metric import HEADLINE
from gymlab.terminal.screen import Screen, plain_text, render
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
from tests.terminal.fake_terminal import FakeTerminal

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
    view = RunView()
    for updates in (1, 2, 3):
        show(view, updated(updates, roll__return_mean=10.0 * updates**2, opt__value_loss=float(updates)))
        view.draw()
    return view


def names_in(view, lines):
    """Those of the metrics a table shows, in its order (one panel), whose label no other namespace has."""
    found = Counter(name.partition("/")[2] for name in view.values)
    labels = {name.partition("/")[2]: name for name in view.values if found[name.partition("/")[2]] == 1}
    words = [re.sub(r"^\w* +", "", plain_text(line)).split() for line in lines]
    return [labels[word[0]] for word in words if word and word[0] in labels]


@pytest.mark.parametrize("size", [(80, 24), (100, 40), (200, 50), (300, 12), (40, 10), (12, 3), (1, 1)])
@pytest.mark.parametrize(
    "choice",
    [TableSelection(), TableSelection(advice=True, help=True), TableSelection(only="opt"), TableSelection(only="-")],
)
def test_a_frame_fits_its_terminal(view, size, choice):
    view.alerts = {alert.id: alert for alert in (HIGH_KL, LOW_RETURN)}
    columns, rows = size
    lines = frame(view, choice, columns, rows)
    assert len(lines) <= max(rows - 1, 1)
    assert all(len(render(line, columns, colour=False)) <= columns for line in lines)


def test_a_small_terminal_shows_only_headline_metrics_in_catalogue_order(view):
    names = names_in(view, frame(view, TableSelection(), 80, 24))
    assert len(names) > 12
    assert all(catalogue.metric(name).priority <= HEADLINE for name in names)
    assert names == catalogue.ordered(names)
    assert names[:2] == ["roll/return_mean", "roll/return_std"]


def test_a_wide_terminal_shows_groups_side_by_side(view):
    first = plain_text(frame(view, TableSelection(), 200, 50)[2])
    assert re.match(r"roll +return_mean .* (opt|eval|env|time) +\S+ ", first)


def test_a_single_selected_group_fills_the_table(view):
    names = names_in(view, frame(view, TableSelection(only="opt"), 80, 24))
    assert {catalogue.metric(name).namespace for name in names} == {"opt"}
    assert max(catalogue.metric(name).priority for name in names) > HEADLINE


def test_values_are_formatted_at_the_catalogues_precision():
    row = {
        "opt/entropy": 0.123456,
        "roll/return_mean": 12.3456,
        "time/sps": 123456.0,
        "sys/rss": 2.5e9,
        "mine/x": 1 / 3,
    }
    assert format_metrics(row) == {
        "roll/return_mean": "12.35", "opt/entropy": "0.1235", "time/sps": "123.5k", "sys/rss": "2.5 GB",
        "mine/x": "0.3333",
    }  # fmt: skip


def test_a_highlighted_row_shows_its_change_its_curve_and_its_alert(view):
    view.alerts = {alert.id: alert for alert in (HIGH_KL, LOW_RETURN)}
    bar, counts, returns, *_ = (render(line, 80) for line in frame(view, TableSelection(), 80, 24))
    assert bar == (f"  1% \x1b[2m{'─' * 56}\x1b[0m \x1b[34m0:01\x1b[0m · eta 3:18")
    assert counts == ("96 vec_steps (768 env) · 3 episodes · \x1b[1mreturn 90.00\x1b[0m · 512 steps/s")
    assert returns == (
        "\x1b[2mroll  \x1b[0m\x1b[1mreturn_mean                 90.00 \x1b[0m\x1b[32m   +50.00 \x1b[0m"
        "\x1b[32m▁▄█    \x1b[0m\x1b[1;31m ! return-stalled     \x1b[0m"
    )


def test_changes_are_coloured_by_what_is_better(view):
    lines = {line[1].text.split()[0]: line for line in frame(view, TableSelection(only="opt"), 80, 24)[2:-1]}
    change = lines["value_loss"][2]
    assert (change.text.strip(), change.style) == ("+1", "red")
    assert lines["entropy"][2].text.strip() == ""


def test_the_change_of_a_measured_metric_is_since_its_last_measurement(view):
    view.measure(Measured(clock(3), {"eval/greedy_mean": 100.0}))
    view.measure(Measured(clock(3), {"eval/greedy_mean": 130.0}))
    show(view, updated(4))
    view.draw()
    assert view.change("eval/greedy_mean") == 30.0


def test_a_history_samples_the_whole_run_evenly_within_bounded_memory():
    history = MetricHistory()
    for i in range(10_000):
        history.add({"x": float(i)})
    values = history.column("x")
    assert SAMPLES <= len(values) < 2 * SAMPLES
    assert values[0] == 0
    assert values[-1] > 9_500
    assert len({b - a for a, b in pairwise(values)}) == 1


def test_the_plain_console_prints_an_alert_in_one_line(capsys):
    console = PlainConsole()
    console(AlertRaised(clock(375), HIGH_KL), CONTROL)
    console(AlertCleared(clock(376), HIGH_KL), CONTROL)
    line = "warning kl-too-high at 12k vec_steps: opt/approx_kl 0.21 > 0.05 -> try ppo.learning_rate=0.0001\n"
    assert capsys.readouterr().out == line


def test_the_json_console_prints_raised_and_cleared_alerts(capsys):
    console = JsonLinesConsole()
    console(AlertRaised(clock(375), HIGH_KL), CONTROL)
    console(AlertCleared(clock(376), HIGH_KL), CONTROL)
    raised, cleared = map(json.loads, capsys.readouterr().out.splitlines())
    assert (raised["event"], raised["vec_steps"], raised["alert"]["id"]) == ("alert", 12000, "kl-too-high")
    assert (cleared["event"], cleared["updates"]) == ("alert cleared", 376)


def test_output_that_is_not_a_terminal_gets_the_plain_console(capsys, monkeypatch):
    assert isinstance(make_console("people")._inner, PlainConsole)
    monkeypatch.setattr("sys.stdout", FakeTerminal(80, 24))
    assert isinstance(make_console("people")._inner, LiveConsole)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(make_console("people")._inner, PlainConsole)


@pytest.fixture
def terminal(monkeypatch):
    terminal = FakeTerminal(80, 24)
    monkeypatch.setattr(Screen, "size", lambda self: (terminal.columns, terminal.rows))
    return terminal


def start_live(terminal, monkeypatch):
    monkeypatch.setattr("sys.stdout", terminal)
    live = LiveConsole()
    live._screen.start()
    return live


def test_printed_lines_scroll_above_the_table(terminal, monkeypatch):
    live = start_live(terminal, monkeypatch)
    live._draw()
    assert terminal.visible()[-1] == "compiling ..."
    for updates in range(1, 30):
        deliver(live, *updated(updates))
        live._draw()
        print(f"line {updates}")
    live(AlertRaised(clock(30), HIGH_KL), CONTROL)
    live._draw()
    visible = terminal.visible()
    text = "\n".join([*terminal.scrolled, *visible])
    assert [text.count(f"line {updates}\n") for updates in range(1, 30)] == [1] * 29
    assert text.count("warning kl-too-high at 960 vec_steps") == 1
    assert text.count("eta") == text.count("episodes ·") == 1
    assert visible[-1] == "1 alert (a: advice)  ? keys"
    assert any("approx_kl" in line and line.endswith("! kl-too-high") for line in visible)
    live(Stopping(clock(30), "budget"), CONTROL)
    assert "eta" not in "\n".join(terminal.visible())
    print("after")
    assert "after" in "\n".join(terminal.visible())


def test_a_resized_terminal_is_redrawn(terminal, monkeypatch):
    live = start_live(terminal, monkeypatch)
    print("kept")
    deliver(live, *updated(1))
    for columns, rows in ((200, 50), (60, 12), (30, 6), (100, 40)):
        terminal.resize(columns, rows)
        live._draw()
        live._draw()
        text = "\n".join(terminal.visible())
        assert text.count("vec_steps (") == 1
        assert "kept" in text
        assert terminal.scrolled == []
    live(Stopping(clock(1), "budget"), CONTROL)


def test_keys_change_what_is_shown(terminal, monkeypatch):
    live = start_live(terminal, monkeypatch)
    deliver(live, *updated(1))
    live(AlertRaised(clock(1), HIGH_KL), CONTROL)

    def press(key):
        live(KeyPressed(clock(1), key), CONTROL)
        return "\n".join(terminal.visible())

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
    assert "paused for 1:05: p continues, s stops" in "\n".join(terminal.visible())
    live(Stopping(clock(1), "interrupted by SIGINT", True), CONTROL)


def test_no_color_disables_colours(terminal, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    written_to = []
    monkeypatch.setattr(terminal, "write", written_to.append)
    live = LiveConsole()
    live._screen.start()
    deliver(live, *updated(1, roll__return_mean=math.nan))
    live(Stopping(clock(1), "budget"), CONTROL)
    assert "m" not in {code[-1] for code in re.findall(r"\x1b\[[?0-9;]*[A-Za-z]", "".join(written_to))}
