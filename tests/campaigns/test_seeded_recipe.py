"""The same trial has the same name, another one another; and what changed since is told."""

import pytest

from gymlab.campaigns.benchmark_table.seeded_recipe import changes, fresh_seed, seed_recipe
from gymlab.core.clock import Clock
from gymlab.core.rng import episode_seed
from gymlab.features.evaluation_metrics import episode_seed as choosing_seed

pytestmark = pytest.mark.fast


def one(*overrides, seed=0, **more):
    (trial,) = seed_recipe("CartPole-v1:ppo", overrides, [seed], **{"full_budget": True, **more})
    return trial


def test_a_trial_is_found_again_by_its_name_and_another_is_not():
    same = one()
    assert one().run_id == same.run_id
    assert one("ppo.learning_rate=lin_1e-3").run_id == same.run_id  # the recipe's own value
    others = [one("learning_rate=2e-3"), one(seed=1), one(full_budget=False), one(budget="50k")]
    assert len({same.run_id, *(trial.run_id for trial in others)}) == 5
    assert one("video.clips=[]", "metrics.statistics=basic").run_id == same.run_id  # they change no score


def test_a_trial_is_what_a_user_would_type():
    words = one("learning_rate=2e-3", seed=3, budget="50k").train_arguments()
    assert words == ["CartPole-v1:ppo", "learning_rate=2e-3", "--budget", "50k", "--seed", "3", "--full-budget"]


def test_what_was_set_differently_is_told_and_a_setting_that_is_new_since_is_not():
    before, after = dict(one().settings), dict(one("learning_rate=2e-3", "n_envs=16").settings)
    assert changes(before, before) == []
    assert sorted(changes(before, after)) == ["n_envs: 8 -> 16", "ppo.learning_rate: lin_1e-3 -> 0.002"]
    older = {key: value for key, value in before.items() if key != "on_nan"}
    assert changes(older, before) == []
    assert changes(older, {**before, "on_nan": "skip"}) == ["on_nan: stop -> skip"]
    assert changes({**before, "env.kwargs.gravity": 3}, before) == ["env.kwargs.gravity: 3 -> none"]


def test_scoring_episodes_are_none_of_those_that_choose_or_stop():
    choosing = {choosing_seed(0, kind, Clock(updates=n)) for kind in ("periodic", "confirm") for n in range(200)}
    fresh = {fresh_seed(seed) for seed in range(50)}
    assert max(choosing) < 2**31 <= min(fresh)
    assert len(fresh) == 50
    assert fresh_seed(3) == fresh_seed(3)

    def episodes(seed):
        return {episode_seed(seed, env, 0, evaluation=True) for env in range(100)}

    seen = set().union(*map(episodes, choosing))
    assert [seed for seed in fresh if episodes(seed) & seen] == []
