"""What the studies count, on numbers worked out by hand, and that they run."""

import json

import gymnasium
import numpy as np
import pytest

from gymlab.campaigns.studies import seeds
from gymlab.campaigns.studies.coverage import RolloutTransitions, StateGrid, format_visits, overlap
from gymlab.core.errors import UserError
from gymlab.envs.engines.gymnasium import GymnasiumEngine
from gymlab.recipes.resolve import resolve
from gymlab.session.run_features import are_copies
from tests.running import gymlab, last_json

TINY = ["policy.hidden=[4]", "n_envs=4", "n_steps=8", "batch_size=32", "epochs=1"]


def seen(*envs):
    """States of envs, whole numbers, as a rollout whose every step leads one further."""
    states = np.array(envs, np.float64).T[:, :, None]
    return RolloutTransitions(states, np.zeros_like(states), states + 1)


def test_overlap_counts_cells_of_one_env_of_all_and_of_more_than_one():
    rollout = seen([0, 1, 2, 3], [2, 3, 4, 5])
    found = overlap(0, rollout, StateGrid(rollout.before.reshape(-1, 1)), so_far=6)
    assert (found.states, found.of_one_env, found.worth) == (6, 4, 1.5)
    assert found.shared == pytest.approx(2 / 6)  # 2 and 3
    assert found.jaccard == pytest.approx(2 / 6)
    assert found.new_transitions == pytest.approx(4 / 8)  # 0, 1 of one and 4, 5 of the other
    std = np.std([0, 1, 2, 3, 2, 3, 4, 5])
    assert found.nearest_own == pytest.approx(1 / std)
    assert found.nearest_other == pytest.approx(np.mean([2, 1, 0, 0, 0, 0, 1, 2]) / std)


def test_copies_are_worth_one_env_and_strangers_all_of_them():
    same, apart = seen([0, 1], [0, 1], [0, 1]), seen([0, 1], [10, 11], [20, 21])
    found = overlap(0, same, StateGrid(same.before.reshape(-1, 1)), 2)
    assert (found.worth, found.shared, found.jaccard, found.new_transitions, found.nearest_other) == (1, 1, 1, 0, 0)
    assert overlap(0, apart, StateGrid(apart.before.reshape(-1, 1)), 6).worth == 3


def test_states_of_two_numbers_are_drawn_in_a_plane():
    states = np.array([[0.05, 0.05], [0.95, 0.95], [0.95, 0.96], [0.5, 0.501]])
    grid = StateGrid(states)
    assert grid.visits.sum() == 4
    assert grid.visits[-1, 0] == 1  # low, low: bottom left
    assert grid.visits[0, -1] == 2  # high, high: top right
    assert len(format_visits(grid.visits)) == 20


class Starts(gymnasium.Env):
    """Shows the first number that its seed gives, in episodes of one step."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.shown = self.np_random.random(1, np.float32)
        return self.shown, {}

    def step(self, action):
        return self.shown, 0.0, True, False, {}


def first_states(recipe):
    engine = GymnasiumEngine(recipe.env, 3, 0)
    states = [engine.reset().obs.ravel().copy()]
    states += [engine.step(np.zeros(3, int)).obs.ravel().copy() for _ in range(3)]
    engine.close()
    return np.array(states)  # (episode, env)


def test_the_arms_differ_in_which_envs_and_episodes_begin_alike():
    recipe = resolve("tests.campaigns.test_studies:Starts", ["n_envs=3"]).recipe
    distinct, shared, fixed = (first_states(seeds.arm_recipe(recipe, arm, seed=1)) for arm in seeds.ARMS)
    assert len(np.unique(distinct)) == 12
    assert len(np.unique(shared)) == 4
    assert (shared == shared[:, :1]).all()
    assert len(np.unique(fixed)) == 1


def test_an_env_that_is_made_anew_for_each_episode_cannot_share_seeds():
    with pytest.raises(UserError, match="makes a new env"):
        next(seeds.study(resolve("BipedalWalker-v3:ppo").recipe, runs=2))


def test_the_gain_of_distinct_seeds_has_an_interval():
    runs = [seeds.ArmRun("distinct", seed, 10.0 + seed, 5.0) for seed in range(5)]
    runs += [seeds.ArmRun("shared", seed, 0.0 + seed, 5.0) for seed in range(5)]
    distinct, shared = seeds.compare_arms(runs)
    assert distinct.final_gain is None
    assert shared.final_gain.value == pytest.approx(10)
    assert 5 < shared.final_gain.low <= 10 <= shared.final_gain.high < 15
    assert shared.on_the_way_gain.value == 0


def test_coverage_of_a_recipe_is_told_rollout_by_rollout(cli):
    done = cli("study", "coverage", "FrozenLake-v1", *TINY, "--updates", 2, "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert [row["rollout"] for row in told["rollouts"]] == [0, 1]
    assert all(1 <= row["worth"] <= 4 and row["states"] <= 16 for row in told["rollouts"])
    assert told["rollouts"][1]["states_so_far"] >= told["rollouts"][0]["states_so_far"]


@pytest.mark.slow
def test_the_study_of_seeds_compares_three_arms(folder):
    few = ["--runs", 2, "--budget", 64, "eval.episodes=2", "eval.final_episodes=2", "eval.every=50%"]
    told = last_json(gymlab("study", "seeds", "CartPole-v1", *TINY, *few, "--json", cwd=folder))
    assert [row["arm"] for row in told["arms"]] == ["distinct", "shared", "fixed"]
    assert len(told["trained"]) == 6
    assert not (folder / "runs").exists()


def test_whether_envs_are_copies_is_found_out_once(tmp_path, monkeypatch):
    monkeypatch.setenv("GYMLAB_CACHE", str(tmp_path))
    cliff, lake = resolve("CliffWalking-v1").recipe, resolve("FrozenLake-v1").recipe
    own = resolve("tests.campaigns.test_studies:Starts").recipe
    assert (are_copies(cliff), are_copies(lake), are_copies(own)) == (True, False, False)
    assert len(list((tmp_path / "copies").iterdir())) == 2  # code of one's own may change: that is not remembered
    monkeypatch.setattr("gymlab.session.run_features.ignores_seed", lambda *_: pytest.fail("looked again"))
    assert (are_copies(cliff), are_copies(lake)) == (True, False)
    next((tmp_path / "copies").iterdir()).write_text("damaged")
    monkeypatch.setattr("gymlab.session.run_features.ignores_seed", lambda *_: True)
    assert True in (are_copies(cliff), are_copies(lake))
