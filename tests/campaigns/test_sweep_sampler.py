"""What is drawn depends on the plan and on earlier rounds alone."""

import math

import pytest

from gymlab.campaigns.sweep.plan import SweepOptions, make_plan
from gymlab.campaigns.sweep.sampler import TrialSampler
from gymlab.campaigns.sweep.space import overrides
from gymlab.campaigns.sweep.store import Trial

pytestmark = pytest.mark.fast

SPACE = ("ppo.learning_rate=log:1e-5..1e-2", "ppo.gamma=0.9,0.99,0.999")


def plan_of(tmp_path, method, **more):
    options = SweepOptions("CartPole-v1:ppo", (), SPACE, method=method, trials=32, batch=4, **more)
    return make_plan(options, tmp_path)[0]


def outcome(plan, index, params):
    """Best at a rate of 1e-3; every fifth trial is given up, every eleventh fails."""
    value = -abs(math.log10(params["ppo.learning_rate"]) + 3)
    state = "failed" if index % 11 == 10 else "pruned" if index % 5 == 4 else "finished"
    kept = None if state == "failed" else value
    return Trial(index, index, state, params, overrides(plan.dimensions, params), kept, {0: value - 1})


def walk(plan, suggester, rows, until):
    for index in range(len(rows), until):
        rows.append(outcome(plan, index, suggester.params(index, rows)))
    return rows


@pytest.mark.parametrize("method", ["random", "tpe"])
def test_whoever_comes_later_draws_what_the_first_would_have(tmp_path, method):
    plan = plan_of(tmp_path, method, seed=5)
    rows = walk(plan, TrialSampler(plan), [], 32)
    joined = walk(plan, TrialSampler(plan), rows[:13], 32)  # in the middle of a round, as after a kill
    assert [row.params for row in joined] == [row.params for row in rows]
    other = plan_of(tmp_path, method, seed=6)
    assert walk(other, TrialSampler(other), [], 32)[0].params != rows[0].params


def test_tpe_learns_from_earlier_rounds_and_not_from_its_own(tmp_path):
    plan = plan_of(tmp_path, "tpe")
    rows = walk(plan, TrialSampler(plan), [], 32)
    near = [abs(math.log10(row.params["ppo.learning_rate"]) + 3) for row in rows]
    assert sum(near[16:]) < sum(near[:16])
    turned = [outcome(plan, row.index, {**row.params, "ppo.learning_rate": 1e-5}) for row in rows[28:]]
    late = TrialSampler(plan)
    assert [late.params(index, [*rows[:28], *turned]) for index in range(28, 32)] == [row.params for row in rows[28:]]
