import pytest
from hypothesis import given
from hypothesis import strategies as st

from gymlab.core.clock import Clock
from gymlab.core.period import Period

pytestmark = pytest.mark.fast


def after(updates, size):
    return Clock(updates=updates, vec_steps=updates * size)


def firings(period, size, last):
    return [u for u in range(1, last + 1) if period.fires(after(u, size))]


def test_a_period_fires_at_the_first_update_at_or_after_each_multiple():
    # 256 steps an update, every 1000: 1000 is crossed at update 4 (1024), 2000 at 8 (2048), 3000 at 12 (3072).
    period = Period(1000, "vec_steps", 256)
    assert firings(period, 256, 13) == [4, 8, 12]
    assert period.due(after(0, 256)) == 4
    assert period.due(after(4, 256)) == 8


def test_a_period_fires_at_the_same_steps_for_every_update_size():
    for size in (100, 250, 500):
        fired = [u * size for u in firings(Period(500, "vec_steps", size), size, 2000 // size)]
        assert fired == [500, 1000, 1500, 2000]


def test_a_period_goes_on_from_the_clock_where_the_size_of_an_update_changes():
    # 20 updates of 256 steps (5120), then of 64: 6000 is crossed at 6016, 14 updates later; 7000 at 7040, 30 later.
    period = Period(1000, "env_steps", 64)
    assert period.due(Clock(updates=20, env_steps=5120)) == 34
    later = [Clock(updates=20 + u, env_steps=5120 + 64 * u) for u in range(1, 31)]
    assert [clock.env_steps for clock in later if period.fires(clock)] == [6016, 7040]


def test_not_before_delays_the_first_firing():
    assert firings(Period(100, "vec_steps", 100, not_before=350), 100, 10) == [4, 5, 6, 7, 8, 9, 10]


@given(st.integers(1, 500), st.integers(1, 300), st.integers(0, 2000), st.integers(0, 200), st.integers(0, 1000))
def test_due_returns_the_next_update_that_fires(every, size, warmup, updates, steps):
    period = Period(every, "vec_steps", size, warmup)
    now = Clock(updates=updates, vec_steps=steps)

    def fires(update):
        return period.fires(Clock(updates=update, vec_steps=steps + (update - updates) * size))

    due = period.due(now)
    assert fires(due)
    assert not any(fires(u) for u in range(updates + 1, due))
