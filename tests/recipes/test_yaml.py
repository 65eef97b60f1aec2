"""Recipes as files: written and read back, started, formatted, described to editors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gymlab.core.errors import UserError
from gymlab.recipes import write
from gymlab.recipes.keys import recipe_file_schema
from gymlab.recipes.resolve import read_run_recipe, resolve
from gymlab.recipes.schema import FIELDS
from gymlab.recipes.write import dump_recipe, format_recipe_file, format_recipe_text, starter_text, write_starter
from tests.recipe_files import plain, write_recipe

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("reference", "overrides"),
    [
        ("CartPole-v1", []),
        ("CartPole-v1:a2c", ["learning_rate=[[0%, 1e-3], [33.3%, 5e-4]]"]),
        ("CartPole-v1:reinforce", ["gamma={start: 0.9, end: 1, shape: cosine}", "eval.every=33.3%"]),
        ("Pendulum-v1", ["budget=12345 vec_steps", "env.wrappers=[{frame_stack: 4}, clip_reward]"]),
        ("LunarLander-v3", ["env.kwargs={gravity: -9, wind_power: 0.1}", "target_kl=0.03", "warmup=10k"]),
        ("Blackjack-v1", ["env.kwargs.sab=true", "actions=['off', \"1\"]", "log_std_init=-0.1"]),
    ],
)
def test_a_recipe_loads_back_equal(reference, overrides, clean_folder):
    recipe = resolve(reference, overrides).recipe
    path = clean_folder / "recipe.yaml"
    path.write_text(dump_recipe(recipe), encoding="utf-8")
    assert read_run_recipe(path) == recipe
    assert resolve("recipe.yaml").recipe == recipe
    assert format_recipe_text(dump_recipe(recipe)) == dump_recipe(recipe)


def test_a_recipe_with_a_name_of_its_own_keeps_it(clean_folder):
    recipe = resolve("CartPole-v1").recipe.model_copy(update={"name": "from a script"})
    (clean_folder / "recipe.yaml").write_text(dump_recipe(recipe))
    assert read_run_recipe(clean_folder / "recipe.yaml") == recipe


def test_text_that_looks_like_a_number_stays_text_when_written(clean_folder):
    recipe = resolve("CartPole-v1").recipe
    recipe = recipe.model_copy(
        update={"env": recipe.env.model_copy(update={"kwargs": {"a": "100k", "b": "5", "c": 5.0}})}
    )
    (clean_folder / "recipe.yaml").write_text(dump_recipe(recipe))
    again = read_run_recipe(clean_folder / "recipe.yaml").env.kwargs
    assert again == {"a": "100k", "b": "5", "c": 5.0}
    assert isinstance(again["c"], float)


@pytest.mark.parametrize("reference", ["CartPole-v1", "Pendulum-v1:a2c", "Blackjack-v1"])
def test_a_starter_says_what_each_key_does_and_gives_the_same_recipe(reference, clean_folder):
    recipe = resolve(reference).recipe
    path = write_starter(recipe)
    text = path.read_text()
    assert resolve(recipe.env.id).recipe == recipe
    assert resolve(recipe.env.id).source == path.relative_to(Path())
    assert format_recipe_text(text) == text
    assert all("#" in line for line in text.splitlines() if ": " in line)
    with pytest.raises(UserError, match="exists already"):
        write_starter(recipe)
    assert write_starter(recipe, force=True) == path


ENV_FILE = """
import gymnasium, numpy
class MyEnv(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), numpy.float32)
    action_space = gymnasium.spaces.Discrete(2)
    def __init__(self, size=3, render_mode=None): self.size = size
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}
    def step(self, action): return self.observation_space.sample(), 0.0, False, False, {}
class Arm(MyEnv):
    action_space = gymnasium.spaces.Box(-1, 1, (3,), numpy.float32)
"""


def test_a_starter_for_a_users_own_env_finds_it_again(clean_folder):
    (clean_folder / "my_env.py").write_text(ENV_FILE)
    path = write_starter(resolve("./my_env.py:Arm").recipe)
    assert resolve(str(path)).recipe == resolve("./my_env.py:Arm").recipe
    assert starter_text(resolve("./my_env.py:Arm").recipe) == path.read_text()


UNTIDY = """\
# head of the file

variants:
  # the tuned one
  ppo:   # by hand
    ppo:
      epochs: 4   # few
      # found by a sweep
      # of 20 trials
      learning_rate: 3e-4

      gamma: 0.9
    n_steps: 32   

    # about the envs
    n_envs: 2
    policy: {activation: tanh, hidden: [8, 8]}
    env:
      wrappers+:
      - scale_reward: {scale: 2}
      - clip_reward
      kwargs: {z: 1, a: 2}
    budget: 1M
  second:
    misspelt: 1
    extends: ppo
env: {solved_at: 3, id: CartPole-v1}
# the end
"""  # noqa: W291

TIDY = """\
# head of the file

env: {id: CartPole-v1, solved_at: 3}
variants:
  # the tuned one
  ppo:   # by hand
    budget: 1M
    # about the envs
    n_envs: 2
    n_steps: 32

    env:
      kwargs: {z: 1, a: 2}
      wrappers+:
      - scale_reward: {scale: 2}
      - clip_reward
    policy: {hidden: [8, 8], activation: tanh}
    ppo:
      # found by a sweep
      # of 20 trials
      learning_rate: 3e-4

      gamma: 0.9
      epochs: 4   # few
  second:
    extends: ppo
    misspelt: 1
# the end
"""


def test_formatting_puts_keys_in_order_and_keeps_comments():
    assert format_recipe_text(UNTIDY) == TIDY


def test_formatting_twice_changes_nothing():
    assert format_recipe_text(TIDY) == TIDY


def test_formatting_never_changes_what_a_recipe_says():
    assert plain(format_recipe_text(UNTIDY)) == plain(UNTIDY)


def test_formatting_refuses_what_it_cannot_keep():
    with pytest.raises(UserError, match="alias"):
        format_recipe_text("variants: {a: {n_envs: &n 4}}\nenv: {max_episode_steps: *n, id: x}\n")
    with pytest.raises(UserError, match=r"x\.yaml:\d"):
        format_recipe_text("env: [", "x.yaml")


def test_checking_the_format_writes_nothing(clean_folder):
    path = write_recipe(clean_folder, UNTIDY)
    assert format_recipe_file(path, write=False)
    assert path.read_text() == UNTIDY
    assert format_recipe_file(path, write=True)
    assert not format_recipe_file(path, write=False)


def test_the_json_schema_knows_every_key_and_nothing_else():
    schema = recipe_file_schema()
    variant = schema["$defs"]["Variant"]
    assert set(variant["properties"]) == {"extends", *FIELDS, "ppo", "a2c", "reinforce"}
    assert variant["additionalProperties"] is False
    assert "learning_rate" in schema["$defs"]["PPOSettings"]["properties"]
    assert json.loads(json.dumps(schema)) == schema


def test_every_reference_in_the_json_schema_exists():
    schema = recipe_file_schema()
    text = json.dumps(schema)
    used = {part.split('"')[0] for part in text.split("#/$defs/")[1:]}
    assert used <= set(schema["$defs"])


def test_the_yaml_cache_distinguishes_every_value_and_its_size_is_bounded() -> None:
    assert [write.dump_yaml({"a": value}) for value in (1, 1.0, True, "1")] == [
        "a: 1\n",
        "a: 1.0\n",
        "a: true\n",
        "a: '1'\n",
    ]
    for count in range(write.MAX_CACHED_TEXTS + 2):
        assert write.dump_yaml({"a": count}) == f"a: {count}\n"
    assert len(write._yaml_cache) <= write.MAX_CACHED_TEXTS
