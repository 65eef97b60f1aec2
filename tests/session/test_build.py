"""Numbers of a run that follow from its recipe."""

import pytest

from gymlab.recipes.resolve import resolve
from gymlab.session.build import evaluation_episodes

pytestmark = pytest.mark.fast

LIMIT = 500  # of CartPole-v1


@pytest.mark.parametrize(
    ("budget", "kind", "episodes"),
    [
        ("100k", "final", 100),
        ("50k", "final", 50),  # 2 ways of acting x 50 episodes x 500 steps
        ("5k", "final", 20),  # as many as a periodic one
        ("5k", "confirm", 100),  # it decides whether the run stops
        ("5k", "periodic", 20),
    ],
)
def test_a_final_evaluation_costs_no_more_env_steps_than_the_training(budget, kind, episodes):
    recipe = resolve("CartPole-v1:ppo", [], budget=budget).recipe
    assert evaluation_episodes(recipe, kind, LIMIT) == episodes


def test_a_number_of_final_episodes_that_was_asked_for_is_kept():
    recipe = resolve("CartPole-v1:ppo", ["eval.final_episodes=50"], budget="5k").recipe
    assert evaluation_episodes(recipe, "final", LIMIT) == evaluation_episodes(recipe, "confirm", LIMIT) == 50
