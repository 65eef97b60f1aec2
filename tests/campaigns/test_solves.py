"""What the shipped recipes reach, over five seeds. Slow: `make test-slow`."""

import json

import pytest

from tests.running import gymlab, last_json

pytestmark = pytest.mark.slow
SEEDS = range(5)


def scores(recipe, folder, *arguments):
    """The final greedy mean of each seed (exact, where the env is a table)."""
    found = []
    for seed in SEEDS:
        result = last_json(gymlab("train", recipe, "--seed", seed, "--json", *arguments, cwd=folder))
        told = json.loads(gymlab("eval", f"{result['run_id']}/last", "--json", cwd=folder).stdout)["eval"]
        found.append(told.get("exact", told["greedy"]["mean"]))
    return found


def test_cartpole_ppo_reaches_500_within_100k_for_every_seed(folder):
    assert scores("CartPole-v1:ppo", folder) == [500.0] * 5


@pytest.mark.parametrize("variant", ["a2c", "reinforce"])
def test_cartpole_is_solved_by_the_others_too(variant, folder):
    assert min(scores(f"CartPole-v1:{variant}", folder)) >= 475


@pytest.mark.parametrize("variant", ["ppo", "reinforce"])
def test_frozen_lake_is_solved_exactly_for_four_of_five_seeds(variant, folder):
    reached = scores(f"FrozenLake-v1:{variant}", folder, "--full-budget")
    assert sum(score >= 0.70 for score in reached) >= 4, reached
