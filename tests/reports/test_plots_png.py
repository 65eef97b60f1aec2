"""When a picture's axis is logarithmic."""

import io

import numpy as np
import pytest

from gymlab.reports.plots_png import Panel, draw, needs_log_axis
from gymlab.runs.metrics_reader import make_curve

pytestmark = pytest.mark.fast


def curve(*values):
    return make_curve("opt/value_loss", "vec_steps", np.arange(len(values), dtype=float), np.array(values, float))


@pytest.mark.parametrize(
    ("curves", "is_so"),
    [
        ([curve(1, 2, 1, 1, 299)], False),
        ([curve(1, 2, 1, 1, 301)], True),
        ([curve(1, 2, 1), curve(1e6, 1e6)], True),
        ([curve(-1, 0, 0, 0, 1000)], False),  # no logarithm of that
        ([curve(0, 0, 0, 0, 5)], True),
        ([curve(0, 0)], False),
        ([curve()], False),
        ([], False),
    ],
)
def test_a_scale_is_logarithmic_where_a_few_values_would_drown_the_rest(curves, is_so):
    assert needs_log_axis(curves) == is_so


def test_a_drowned_panel_can_be_drawn_and_shows_the_usual_level():
    values = [0.0, 1.0, 2.0, 1e-9, 1e7]
    png = draw([Panel("opt/value_loss", [("a", curve(*values))], log=True)], "title", dpi=40)
    from PIL import Image

    assert Image.open(io.BytesIO(png)).size == (360, 192)
