"""What autotune decides, and that it claims no more than was shown."""

import json

import pytest

from gymlab.campaigns.autotune.search import (
    CHOICE_SEEDS,
    SEARCH_SEEDS,
    fresh_seeds,
    search_end,
    search_plan,
    search_space,
    select_candidates,
    set_size,
    size_by_time,
)
from gymlab.campaigns.autotune.state import AutotuneState
from gymlab.campaigns.benchmark_table.seeded_recipe import fresh_seed
from gymlab.campaigns.sweep.space import check_space, parse_space
from gymlab.campaigns.sweep.store import Trial
from gymlab.cli.autotune import parse_seconds
from gymlab.core.errors import UserError
from gymlab.recipes.resolve import amend, resolve
from gymlab.session.compile_cache import compile_key
from tests.campaigns.sweeping import TINY

pytestmark = pytest.mark.fast

DETUNED = {"Acrobot-v1:ppo": "ppo.learning_rate=1e-6", "LunarLander-v3:ppo": "ppo.learning_rate=1e-6"}


def state(**more):
    return AutotuneState(**{"name": "t", "reference": "CartPole-v1:ppo", "seconds": 1200.0, "workers": 2, **more})


@pytest.mark.parametrize("reference", ["CartPole-v1:ppo", "Acrobot-v1:a2c", "FrozenLake-v1:reinforce"])
def test_the_space_of_a_recipe_holds_only_what_it_allows(reference):
    recipe = resolve(reference).recipe
    space = parse_space(search_space(recipe, 1200.0))
    check_space(space, recipe)
    keys = [dimension.key for dimension in space]
    assert f"{recipe.algorithm.name}.learning_rate" in keys
    assert ("ppo.clip_range" in keys) == (recipe.algorithm.name == "ppo")


def test_a_schedule_keeps_its_shape():
    assert search_space(resolve("CartPole-v1:ppo").recipe, 60.0)[0] == "ppo.learning_rate=lin_log:3e-05..0.01"
    assert search_space(resolve("Acrobot-v1:ppo").recipe, 60.0)[0] == "ppo.learning_rate=log:3e-05..0.01"


def test_what_costs_compilations_is_tried_only_where_there_is_time():
    recipe = resolve("CartPole-v1:ppo").recipe

    def compiled(seconds):
        found = parse_space(search_space(recipe, seconds))
        return [d.key for d in found if compile_key(amend(recipe, [d.text(d.ends()[1])])) != compile_key(recipe)]

    keys = ["normalize.obs", "normalize.reward", "n_steps", "ppo.epochs"]
    assert [compiled(60.0), compiled(600.0), compiled(1200.0)] == [[], keys[:2], keys]


def test_what_is_planned_fits_into_the_time():
    recipe = resolve("LunarLander-v3:ppo").recipe
    decided = size_by_time(state(reference="LunarLander-v3:ppo"), recipe, speed=5000.0)
    rounds = decided.trials / 9
    search = rounds * decided.env_steps * (1 + 2 * (1 - 1 / 3))  # 9 to a ninth, 3 to a third, 1 to the end: 2 1/3 runs
    choice, confirm = 6 * decided.env_steps, 10 * decided.env_steps
    assert decided.env_steps <= 1_000_000
    assert (search + choice + confirm) / (2 * 5000) < 1200
    assert len(fresh_seeds(decided, spent=0.6 * 1200)) >= 5


def test_a_machine_that_became_slower_confirms_with_fewer_seeds():
    decided = set_size(state(), resolve("CartPole-v1:ppo").recipe, 100_000, 18, speed=10_000.0)
    # 26.3 s a run as measured: (1200 - 800) s x 2 workers / (2 x 26.3 s) = 15, and ten are enough
    assert len(fresh_seeds(decided, spent=800.0)) == 10
    # 50 s a run in the choice: 400 x 2 / 100 = 8
    assert len(fresh_seeds(decided.model_copy(update={"pace": 50.0}), spent=800.0)) == 8


@pytest.mark.parametrize(
    ("env_steps", "seconds"),
    [
        (100_000, 576),  # short runs: 48 % of 1200 s
        (500_000, 477),  # 83.4 s a run; 6 + 10 of them on two cores and two thirds of one that is under way: 723 s
        (2_000_000, 270),  # more than there is time for, as the user wanted it: it searches all the same
    ],
)
def test_the_search_ends_while_there_is_time_for_the_rest(env_steps, seconds):
    decided = set_size(state(), resolve("CartPole-v1:ppo").recipe, env_steps, 18, speed=10_000.0)
    assert search_end(decided) == pytest.approx(seconds, abs=0.5)


def test_too_little_time_is_refused_with_what_would_do():
    with pytest.raises(UserError, match=r"give it \d+m or more"):
        size_by_time(
            state(reference="LunarLander-v3:ppo", seconds=30.0), resolve("LunarLander-v3:ppo").recipe, speed=1000.0
        )


def test_no_run_that_confirms_was_seen_before():
    recipe = resolve("CartPole-v1:ppo").recipe
    decided = set_size(state(), recipe, 10_000, 18)
    fresh = fresh_seeds(decided, 0.0)
    assert not set(fresh) & {*SEARCH_SEEDS, *CHOICE_SEEDS}
    assert len({fresh_seed(seed) for seed in fresh}) == len(fresh)
    assert all(fresh_seed(seed) >= 2**31 for seed in fresh)  # evaluations that choose draw theirs below


def test_the_recipe_itself_is_the_first_trial():
    recipe = resolve("CartPole-v1:ppo").recipe
    plan = search_plan(set_size(state(), recipe, 10_000, 18), recipe)
    assert plan.first == ((),)
    assert plan.stop_at_critical


def test_candidates_are_those_that_came_furthest_and_not_the_recipe():
    def row(index, kind, value, rungs, reason=""):
        return Trial(index, index, kind, {}, () if index == 0 else (f"n_envs={index}",), value, rungs, reason=reason)

    rows = [
        row(0, "finished", 500.0, {0: 9.0, 1: 9.0}),
        row(1, "pruned", 90.0, {0: 90.0}),
        row(2, "finished", 50.0, {0: 1.0, 1: 2.0}),
        row(3, "pruned", 70.0, {0: 1.0, 1: 70.0}),
        row(4, "pruned", 99.0, {0: 99.0}, reason="ruled out by dead-policy"),
        row(5, "failed", None, {}),
    ]
    assert select_candidates(rows) == (("n_envs=2",), ("n_envs=3",), ("n_envs=1",))


@pytest.mark.parametrize(("text", "seconds"), [("20m", 1200), ("90s", 90), ("1h30m", 5400)])
def test_a_time_is_read(text, seconds):
    assert parse_seconds(text) == seconds


def test_a_number_without_a_unit_is_no_time():
    with pytest.raises(UserError, match="20m"):
        parse_seconds("20")


@pytest.mark.slow
def test_a_detuned_recipe_is_tuned_and_the_same_command_only_says_so_again(cli):
    words = ["autotune", *TINY, "learning_rate=1e-6", "--env-steps", "4000", "--trials", "9", "--fresh", "3", "--json"]
    told = json.loads(cli(*words).out.splitlines()[-1])
    assert told["stage"] == "done"
    gain = told["result"]["score"]["gain"]
    assert (told["result"]["verdict"] == "better") == (gain["low"] > 0)
    assert (told["written"] is not None) == (gain["low"] > 0)
    again = json.loads(cli(*words).out.splitlines()[-1])
    assert again["result"] == told["result"]


@pytest.mark.slow
@pytest.mark.parametrize("reference", list(DETUNED))
def test_autotune_betters_a_detuned_recipe_in_twenty_minutes(cli, monkeypatch, reference):
    monkeypatch.delenv("XLA_FLAGS")  # which make compilation quick, and training slow
    told = json.loads(cli("autotune", reference, DETUNED[reference], "--budget", "20m", "--json").out.splitlines()[-1])
    assert told["spent"] < 1.15 * 1200
    assert told["result"]["verdict"] == "better"
    assert told["result"]["score"]["gain"]["low"] > 0
