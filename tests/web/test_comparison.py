"""Mean curves of groups of runs."""

import numpy as np
import pytest

from gymlab.runs.metrics_reader import Curve
from gymlab.web.comparison import by_group, mean_of

pytestmark = pytest.mark.fast


def test_a_mean_of_runs_has_an_interval_that_holds_it_and_one_run_has_none():
    x = np.arange(10.0)
    flat = [Curve(x, np.full(10, level), x, x) for level in (1.0, 2.0, 6.0)]
    both = mean_of(flat)
    assert both.y == pytest.approx(3.0)
    assert (both.low < 3).all()
    assert (both.high > 3).all()
    named = by_group({"a": flat[0], "b": flat[1], "c": flat[2]}, {"a": "one", "b": "one", "c": "two"})
    assert list(named) == ["one (n=2)", "two (n=1)"]
    assert (named["two (n=1)"].low == named["two (n=1)"].high).all()
