import pytest
from hypothesis import given
from hypothesis import strategies as st

from gymlab.core.period import Period

pytestmark = pytest.mark.fast


def test_a_period_fires_at_the_first_update_at_or_after_each_multiple():
    # 256 steps an update, every 1000: 1000 is crossed at update 4 (1024), 2000 at 8 (2048), 3000 at 12 (3072).
    period = Period(1000, 256)
    assert [u for u in range(1, 14) if period.fires(u)] == [4, 8, 12]
    assert period.due(0) == 4
    assert period.due(4) == 8


def test_a_period_fires_at_the_same_steps_for_every_update_size():
    for per_update in (100, 250, 500):
        fired = [u * per_update for u in range(1, 2000 // per_update + 1) if Period(500, per_update).fires(u)]
        assert fired == [500, 1000, 1500, 2000]


def test_not_before_delays_the_first_firing():
    assert [u for u in range(1, 11) if Period(100, 100, not_before=350).fires(u)] == [4, 5, 6, 7, 8, 9, 10]


@given(st.integers(1, 500), st.integers(1, 300), st.integers(0, 2000), st.integers(0, 200))
def test_due_returns_the_next_update_that_fires(every, per_update, warmup, updates):
    period = Period(every, per_update, warmup)
    due = period.due(updates)
    assert period.fires(due)
    assert not any(period.fires(u) for u in range(updates + 1, due))
