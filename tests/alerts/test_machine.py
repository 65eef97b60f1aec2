"""Alert rules for the machine."""

import pytest

from gymlab.alerts.engine import AlertEngine
from gymlab.alerts.machine import SPEED
from tests.alerts.rows import RUN, fold

pytestmark = pytest.mark.fast


def test_a_lasting_drop_of_speed_is_an_alert():
    assert "+" in fold(AlertEngine([SPEED], RUN), [10.0, 60.0, *[1000.0] * 9, *[300.0] * 10], metric="time/sps")
    assert "+" not in fold(AlertEngine([SPEED], RUN), [10.0, 60.0, *[1000.0] * 9, *[500.0] * 10], metric="time/sps")


def test_one_fast_call_at_the_start_is_not_the_usual_speed():
    # A2C with one env: its first calls return before they are done.
    speeds = [0.1, 69, 1367, 1304, 133, 298, 185, 645, 182, 453, *[103, 284, 72, 150, 132] * 6]
    assert "+" not in fold(AlertEngine([SPEED], RUN), speeds, metric="time/sps")
