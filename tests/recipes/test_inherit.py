"""How a variant inherits from its parents, its file and the recipes that ship."""

from __future__ import annotations

from pathlib import Path

import pytest

from gymlab.core.schedules import parse_schedule
from gymlab.envs.settings import Part
from gymlab.recipes.resolve import load_yaml_text, read_run_recipe, resolve
from gymlab.recipes.schema import Steps
from gymlab.recipes.write import dump_recipe
from tests.recipe_files import write_recipe

pytestmark = pytest.mark.fast

REPOSITORY = Path(__file__).parents[2]


FAMILY = """\
env:
  id: LunarLander-v3
  kwargs: {gravity: -10.0, wind_power: 5.0}
  wrappers: [clip_reward]
variants:
  ppo:
    budget: 1M env_steps
    n_envs: 16
    n_steps: 64
    policy: {hidden: [64, 64], activation: tanh}
    ppo: {learning_rate: {start: 1e-3, end: 1e-4}, batch_size: 64, gamma: 0.9}
  child:
    extends: ppo
    env:
      kwargs: {gravity: -9.0}
      wrappers+:
        - scale_reward: 0.1
    policy: {activation: relu}
    ppo: {learning_rate: {start: 1e-2, shape: cosine}, epochs: 2}
  grandchild:
    extends: child
    budget: {vec_steps: 10k}
    env: {wrappers: []}
  other:
    extends: ppo
    a2c: {learning_rate: 1e-3}
"""


@pytest.fixture
def family(clean_folder):
    write_recipe(clean_folder, FAMILY, "family.yaml")

    def load(variant):
        return resolve(f"family.yaml:{variant}").recipe

    return load


def test_a_child_merges_blocks_and_replaces_values(family):
    child = family("child")
    assert child.n_envs == 16
    assert (child.policy.hidden, child.policy.activation) == ((64, 64), "relu")
    assert (child.algorithm.settings.gamma.start, child.algorithm.settings.epochs) == (0.9, 2)
    assert child.env.kwargs == {"gravity": -9.0, "wind_power": 5.0}


def test_a_schedule_is_one_value_and_is_not_mixed_with_the_inherited_one(family):
    assert family("child").algorithm.settings.learning_rate == parse_schedule({"start": 1e-2, "shape": "cosine"})


def test_plus_appends_to_an_inherited_list(family):
    assert family("child").env.wrappers == (Part(name="clip_reward"), Part(name="scale_reward", value=0.1))
    assert family("grandchild").env.wrappers == ()


def test_a_budget_is_replaced_as_a_whole(family):
    assert family("grandchild").budget == Steps(count=10_000, clock="vec_steps")
    assert family("grandchild").policy.activation == "relu"


def test_another_algorithm_inherits_none_of_its_predecessors_settings(family):
    other = family("other").algorithm
    assert other.name == "a2c"
    assert other.settings.gamma.start == 0.99


ALGORITHM_FILE = """
from pydantic import Field
from gymlab.algorithms.ppo import PPOAlgorithm, PPOSettings
class MySettings(PPOSettings):
    spice: float = 1.0
class MyPPO(PPOAlgorithm):
    Settings = MySettings
"""


@pytest.mark.parametrize("beside", [True, False])
def test_a_users_algorithm_inherits_what_its_settings_class_does(clean_folder, beside):
    (clean_folder / "recipes").mkdir()
    (clean_folder / ("recipes/my_ppo.py" if beside else "my_ppo.py")).write_text(ALGORITHM_FILE)
    write_recipe(
        clean_folder,
        "env: {id: CartPole-v1}\nvariants:\n  mine:\n    extends: ppo\n    ./my_ppo.py:MyPPO: {spice: 2}\n",
    )
    recipe = resolve("CartPole-v1:mine").recipe
    assert recipe.algorithm.name == ("./recipes/my_ppo.py:MyPPO" if beside else "./my_ppo.py:MyPPO")
    assert recipe.algorithm.settings.spice == 2
    assert recipe.algorithm.settings.epochs == 20  # of the package's tuned PPO
    assert resolve("CartPole-v1:mine", ["spice=3"]).recipe.algorithm.settings.spice == 3
    (clean_folder / "out.yaml").write_text(dump_recipe(recipe))
    assert read_run_recipe(clean_folder / "out.yaml") == recipe


def test_a_variant_called_like_an_algorithm_may_run_a_relative_of_it(clean_folder):
    (clean_folder / "my_ppo.py").write_text(ALGORITHM_FILE)
    write_recipe(clean_folder, "env: {id: CartPole-v1}\nvariants:\n  ppo:\n    ./my_ppo.py:MyPPO: {}\n")
    assert resolve("CartPole-v1").recipe.algorithm.name == "./my_ppo.py:MyPPO"


def test_a_users_recipe_extends_ours(clean_folder):
    write_recipe(
        clean_folder,
        "env: {id: CartPole-v1}\nvariants:\n  ppo: {extends: ppo, n_envs: 16}\n  wide: {extends: ppo, n_steps: 64}\n",
    )
    assert resolve("CartPole-v1").recipe.n_envs == 16
    assert resolve("CartPole-v1").recipe.algorithm.settings.epochs == 20
    wide = resolve("CartPole-v1:wide").recipe
    assert (wide.n_envs, wide.n_steps, wide.algorithm.settings.epochs) == (16, 64, 20)


def test_an_empty_block_changes_nothing(clean_folder):
    text = "env: {id: CartPole-v1}\nvariants:\n  ppo:\n    policy: {hidden: [3]}\n    ppo: {gamma: 0.5}\n"
    recipe = load_yaml_text(text + "  b:\n    extends: ppo\n    policy:\n    ppo:\n", "b")
    assert (recipe.policy.hidden, recipe.algorithm.settings.gamma.start) == ((3,), 0.5)
