"""Charts as text and as pictures."""

import math
import struct
import time

import numpy as np
import pytest

from gymlab.core.errors import UserError
from gymlab.reports import plots_png
from gymlab.runs.metrics_reader import CurveReader, make_curve, smooth_curve
from gymlab.runs.metrics_writer import MetricsWriter
from gymlab.terminal.plots import PlotFrame, PlotLine, plot, sparkline, tick_label, ticks
from tests.synthetic import facts_of, make_run

pytestmark = pytest.mark.fast

RAMP = PlotLine("ramp", np.arange(11.0), np.arange(11.0))


def test_a_sparkline_shows_all_values_lowest_to_highest():
    assert sparkline(range(8)) == "▁▂▃▄▅▆▇█"
    assert sparkline([3.0, 3.0, 3.0]) == "▄▄▄"
    assert sparkline([math.nan, 1.0, math.inf, 2.0]) == "▁█"
    assert sparkline([]) == ""
    # 80 values in 8 places: each block is the mean of ten.
    assert sparkline(np.arange(80.0), 8) == "▁▂▃▄▅▆▇█"


def test_one_curve_is_drawn_in_braille_between_axes():
    assert plot([RAMP], PlotFrame(width=11, height=4, axis="updates")) == [
        "10 ┤        ⢀⠤⠔",
        "   │     ⢀⡠⠔⠁",
        "   │   ⡠⠊⠁",
        " 0 ┤⡠⠔⠉",
        "   └┬────┬────┬",
        "    0    5   10  updates",
    ]


def test_several_curves_are_told_apart_by_letters_and_share_their_axes():
    other = PlotLine("flat", np.arange(11.0), np.full(11, 4.0))
    assert plot([RAMP, other], PlotFrame(width=11, height=5, axis="vec_steps")) == [
        "10 ┤          A",
        "   │       AAA",
        "   │BBBB***BBBB",
        "   │  AA",
        " 0 ┤AA",
        "   └┬────┬────┬",
        "    0    5   10  vec_steps",
        "  A ramp",
        "  B flat",
    ]


def test_the_threshold_is_dotted_only_where_it_is_in_reach():
    near = plot([RAMP], PlotFrame(width=11, height=5, threshold=12.0))
    assert near[-1] == "  ┈ solved at 12"
    assert any(line.endswith("┈" * 11) for line in near)
    assert not any("┈" in line for line in plot([RAMP], PlotFrame(threshold=500.0)))


@pytest.mark.parametrize(
    ("x", "y"),
    [([1.0], [5e-5]), ([1.0, 2.0], [7.0, 7.0]), ([0.0, 0.0], [1.0, 2.0]), ([1.0, 2.0], [-5e9, 3e9]), ([1.0], [0.0])],
)
def test_odd_curves_are_drawn_too(x, y):
    lines = plot([PlotLine("odd", np.array(x), np.array(y))], PlotFrame(width=20, height=5))
    assert len(lines) == 7
    assert any("⠀" < letter <= "⣿" for line in lines for letter in line)


def test_a_curve_without_numbers_says_so():
    assert plot([PlotLine("none", np.array([1.0]), np.array([math.nan]))]) == ["(nothing measured yet)"]


def test_ticks_are_round_and_within_the_range():
    assert ticks(0, 500, 5) == [0.0, 100.0, 200.0, 300.0, 400.0, 500.0]
    assert ticks(-0.3, 0.7, 4) == [-0.25, 0.0, 0.25, 0.5]
    assert ticks(0, 3000, 5, seconds=True) == [0.0, 600.0, 1200.0, 1800.0, 2400.0, 3000.0]
    assert [tick_label(value, 0.25) for value in (-0.25, 0.0, 0.5)] == ["-0.25", "0", "0.50"]
    assert tick_label(2e6, 1e6) == "2e+06"


def test_a_curve_keeps_mean_and_extremes_and_counts_what_is_no_number():
    x, y = np.arange(1000.0), np.zeros(1000)
    y[500], y[3] = 7.0, math.nan
    curve = make_curve("m", "updates", x, y, 10)
    assert len(curve) == 10
    assert curve.high.max() == 7.0
    assert curve.y.max() == pytest.approx(7 / 99.9, rel=0.02)
    assert (curve.x[-1], curve.not_finite) == (999.0, 1)


def test_smoothing_is_a_mean_over_a_share_of_the_axis():
    curve = make_curve("m", "updates", np.arange(11.0), np.array([0.0] * 5 + [11.0] + [0.0] * 5))
    # A window of 0.4 * 10 = 4 updates holds two neighbours on either side: 11 / 5.
    assert smooth_curve(curve, 0.4).y.tolist() == pytest.approx([0, 0, 0, 2.2, 2.2, 2.2, 2.2, 2.2, 0, 0, 0])
    assert smooth_curve(curve, 0.0) is curve


def test_a_long_run_is_sampled_but_its_evaluations_are_not(tmp_path):
    rows = 90_000
    with MetricsWriter(tmp_path / "metrics.db") as writer:
        for start in range(0, rows, 10_000):
            writer.append(
                {
                    "updates": 3 * u, "vec_steps": u, "env_steps": u, "episodes": 0, "gradient_steps": 0,
                    "seconds": 0.0,
                    **{f"m/{i}": float(u) for i in range(10)}, **({"eval/x": u} if u % 30_000 == 7 else {}),
                }
                for u in range(start + 1, start + 10_001)
            )  # fmt: skip
    began = time.process_time()
    with CurveReader(tmp_path / "metrics.db") as reader:
        found = reader.curves([*(f"m/{i}" for i in range(10)), "eval/x", "never"], points=100)
        first, totals = reader.first("m/0"), reader.totals(["m/0", "never"])
    assert time.process_time() - began < 3  # of the processor, about 0.4: a table scan per curve would take minutes
    assert found["eval/x"].x.tolist() == [7, 30_007, 60_007]
    assert len(found["m/3"]) == 100
    assert found["m/3"].x[-1] == rows
    np.testing.assert_allclose(found["m/3"].y[:-1], found["m/3"].x[:-1])
    assert len(found["never"]) == 0
    assert (first, totals) == (1.0, {"m/0": rows * (rows + 1) / 2, "never": 0.0})


def png_size(data):
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", data[16:24])


def test_a_picture_has_a_panel_per_metric(tmp_path):
    pytest.importorskip("matplotlib")
    run = facts_of(make_run(tmp_path, "one"))
    panels = plots_png.overview(run, {"opt/entropy": (0.0, math.log(2))})
    assert [panel.name for panel in panels] == ["roll/return_mean", "opt/entropy", "opt/explained_variance"]
    assert [label for label, _ in panels[0].curves] == ["training", "evaluation"]
    assert png_size(plots_png.draw(panels, "one")) == (1950, 1155)  # two columns, two rows of 3.5 inches, 150 dpi
    both = [run, facts_of(make_run(tmp_path, "two", n_envs=16))]
    single = plots_png.side_by_side(both, ["roll/return_mean"], {})
    assert [label for label, _ in single[0].curves] == ["one (8 envs)", "two (16 envs)"]
    assert png_size(plots_png.draw(single, "both", smooth=0.1)) == (1350, 720)
    with pytest.raises(UserError, match="did you mean 'opt/entropy'"):
        plots_png.side_by_side(both, ["opt/entropi"], {})
