"""Recipes: reading, grammar, lookup, inheritance, defaults and thresholds."""

from __future__ import annotations

from pathlib import Path

import pytest

from gymlab.core.errors import UserError
from gymlab.envs.registry import resolve_id
from gymlab.recipes.problems import Problems
from gymlab.recipes.resolve import check_file, find_target, load_yaml_text, packaged_files, resolve, variants_of
from gymlab.recipes.schema import Steps
from gymlab.recipes.write import format_recipe_text, recipe_file_name
from gymlab.recipes.yaml_source import read_text
from tests.recipe_files import plain, write_recipe

pytestmark = pytest.mark.fast

REPOSITORY = Path(__file__).parents[2]


def test_yaml_is_read_as_version_1_2():
    text = "[1e-3, no, 010, 1_000, 0x10, ~, 2020-01-01, '5', 100k, yes, true]"
    assert plain(text) == [1e-3, "no", 10, 1000, 16, None, "2020-01-01", "5", "100k", "yes", True]


def test_every_key_remembers_its_line():
    node = read_text("a:\n  b: 1\n  c:\n    - x\n    - y: 2\n", "t.yaml", Problems())
    assert str(node.location_of(("a", "b"))) == "t.yaml:2"
    assert str(node.location_of(("a", "c", 1, "y"))) == "t.yaml:5"
    assert str(node.location_of(("a", "missing", "deeper"))) == "t.yaml:1"


def test_aliases_are_expanded():
    assert plain("a: &x [1, 2]\nb: *x\n") == {"a": [1, 2], "b": [1, 2]}


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("CartPole-v1", "CartPole-v1:ppo"),
        ("CartPole-v1:a2c", "CartPole-v1:a2c"),
        ("Taxi-v3", "Taxi-v4:ppo"),
        ("Blackjack-v1", "Blackjack-v1:ppo"),
        ("Blackjack-v1:reinforce", "Blackjack-v1:reinforce"),
        (
            "gymnasium.envs.classic_control.cartpole:CartPoleEnv",
            "gymnasium.envs.classic_control.cartpole:CartPoleEnv:ppo",
        ),
        (
            "gymnasium.envs.classic_control.cartpole:CartPoleEnv:a2c",
            "gymnasium.envs.classic_control.cartpole:CartPoleEnv:a2c",
        ),
    ],
)
def test_a_reference_is_an_env_and_perhaps_a_variant(reference, name, clean_folder):
    assert resolve(reference).recipe.name == name


def test_an_old_name_is_noted(clean_folder):
    assert any("Taxi-v4" in note for note in resolve("Taxi-v3").notes)


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
REGISTER = 'gymnasium.register("{id}", MyEnv, max_episode_steps=77, reward_threshold=-5)\n'


def test_a_users_own_class_needs_no_recipe(clean_folder):
    (clean_folder / "my_env.py").write_text(ENV_FILE)
    found = resolve("./my_env.py:MyEnv")
    assert (found.recipe.env.id, found.source) == ("./my_env.py:MyEnv", None)
    assert resolve("./my_env.py:MyEnv:reinforce").recipe.n_steps == 1000  # no registered time limit


def test_a_users_own_registered_id_needs_no_recipe(clean_folder, monkeypatch):
    (clean_folder / "my_registered.py").write_text(ENV_FILE + REGISTER.format(id="Registered-v0"))
    monkeypatch.syspath_prepend(str(clean_folder))
    found = resolve("my_registered:Registered-v0:reinforce")
    assert found.recipe.n_steps == 77
    assert (found.recipe.env.solved_at, found.solved_at_source) == (-5, "spec")


def test_imported_modules_register_envs_and_are_remembered(clean_folder, monkeypatch):
    (clean_folder / "my_module.py").write_text(ENV_FILE + REGISTER.format(id="Remembered-v0"))
    monkeypatch.syspath_prepend(str(clean_folder))
    assert resolve("Remembered-v0", imports=["my_module"]).recipe.imports == ("my_module",)
    with pytest.raises(UserError, match="--import no_such_module"):
        resolve("CartPole-v1", imports=["no_such_module"])


def test_a_path_beats_the_folder_and_the_folder_beats_the_package(clean_folder):
    write_recipe(clean_folder, "env: {id: CartPole-v1}\nvariants: {ppo: {n_envs: 3, n_steps: 64}}\n")
    other = write_recipe(
        clean_folder, "env: {id: CartPole-v1}\nvariants: {ppo: {n_envs: 5, n_steps: 64}}\n", "other.yaml"
    )
    assert resolve("CartPole-v1").recipe.n_envs == 3
    assert resolve("CartPole-v1:a2c").source.parent.name == "data"  # not in mine, so the package's
    assert resolve("other.yaml").recipe.n_envs == 5
    assert resolve("other.yaml:ppo").recipe.n_envs == 5
    assert resolve(str(other) + ":ppo").recipe.n_envs == 5
    with pytest.raises(UserError, match="unknown variant 'other'"):
        resolve("other.yaml:other")


def test_a_recipe_is_found_by_its_file_name_too(clean_folder):
    write_recipe(
        clean_folder, "env: {id: CartPole-v1}\nvariants: {quick: {ppo: {}, budget: 1k}}\n", "recipes/balance.yaml"
    )
    assert resolve("balance").recipe.name == "CartPole-v1:quick"
    assert resolve("balance:quick").recipe.budget == Steps(count=1000)


def test_a_recipe_under_an_old_name_is_found_by_the_new_one(clean_folder):
    write_recipe(clean_folder, "env: {id: Taxi-v3}\nvariants: {mine: {ppo: {}}}\n")
    assert resolve("Taxi-v4:mine").recipe.env.id == "Taxi-v4"


def test_an_alias_in_a_recipe_is_noted(clean_folder):
    write_recipe(clean_folder, "env: {id: Taxi-v3}\nvariants: {mine: {ppo: {}}}\n")
    assert any("Taxi-v4" in note for note in resolve("recipes/mine.yaml").notes)


def test_the_first_variant_is_the_default_one(clean_folder):
    write_recipe(clean_folder, "env: {id: CartPole-v1}\nvariants:\n  second: {a2c: {}}\n  first: {ppo: {}}\n")
    assert resolve("CartPole-v1").recipe.name == "CartPole-v1:second"


def test_every_algorithm_is_a_variant_of_every_env(clean_folder):
    assert variants_of("FrozenLake8x8-v1") == ["ppo", "a2c", "reinforce"]
    found = resolve("FrozenLake8x8-v1:a2c")
    assert found.recipe.algorithm.name == "a2c"
    assert found.recipe.env.actions == ("left", "down", "right", "up")  # the env block still counts


def test_an_unrelated_broken_recipe_does_no_harm(clean_folder):
    write_recipe(clean_folder, "env: {id: Acrobot-v1\n", "recipes/broken.yaml")
    assert resolve("CartPole-v1").recipe.n_envs == 8
    with pytest.raises(UserError, match=r"recipes/broken\.yaml:\d"):
        resolve("Acrobot-v1")


@pytest.mark.parametrize(
    ("env", "name"),
    [("ALE/Pong-v5", "ALE-Pong-v5.yaml"), ("./my_env.py:Env", "my_env-Env.yaml"), ("a.b:C-v0", "a.b-C-v0.yaml")],
)
def test_a_file_is_named_after_its_env(env, name):
    assert recipe_file_name(env) == name


def test_find_splits_at_the_last_colon(clean_folder):
    assert (find_target("CartPole-v1:x").env, find_target("CartPole-v1:x").variant) == ("CartPole-v1", "x")


def test_defaults_come_from_the_spaces(clean_folder):
    (clean_folder / "my_env.py").write_text(ENV_FILE)
    discrete, arm = resolve("./my_env.py:MyEnv").recipe, resolve("./my_env.py:Arm").recipe
    assert (discrete.normalize.obs, discrete.budget.count) == (False, 100_000)
    assert (arm.normalize.obs, arm.normalize.reward, arm.budget.count) == (True, True, 1_000_000)
    assert resolve("./my_env.py:Arm", ["obs=false"]).recipe.normalize.obs is False


def test_steps_per_update_come_from_the_algorithm_or_the_time_limit(clean_folder):
    assert resolve("Blackjack-v1").recipe.n_steps == 128
    assert resolve("Blackjack-v1:a2c").recipe.n_steps == 5
    assert resolve("MountainCar-v0:reinforce").recipe.n_steps == 200
    assert resolve("MountainCar-v0:reinforce", ["max_episode_steps=50"]).recipe.n_steps == 50
    assert load_yaml_text("env: {id: CartPole-v1}\nvariants: {reinforce: }\n").n_steps == 500


def test_numbers_in_env_arguments_are_read_as_everywhere_else(clean_folder):
    text = "env: {id: LunarLander-v3, kwargs: {wind_power: 1%, turbulence_power: 1e-1}}\nvariants: {ppo: }\n"
    assert load_yaml_text(text).env.kwargs == {"wind_power": 0.01, "turbulence_power": 0.1}


def test_solved_at_takes_the_nearest_source(clean_folder):
    write_recipe(
        clean_folder,
        "env: {id: MountainCar-v0, solved_at: -120}\nvariants: {a: {ppo: }, b: {ppo: , env: {solved_at: -130}}}\n",
    )
    cases = {"a": (-120, "recipe"), "b": (-130, "recipe")}
    for variant, expected in cases.items():
        found = resolve(f"recipes/mine.yaml:{variant}")
        assert (found.recipe.env.solved_at, found.solved_at_source) == expected
    found = resolve("recipes/mine.yaml:b", ["solved_at=-140"])
    assert (found.recipe.env.solved_at, found.solved_at_source) == (-140, "override")
    found = resolve("Acrobot-v1")
    assert (found.recipe.env.solved_at, found.solved_at_source) == (-100, "spec")
    found = resolve("CliffWalkingSlippery-v1")
    assert (found.recipe.env.solved_at, found.solved_at_source) == (None, "none")


def test_a_threshold_above_the_optimum_is_noted(clean_folder):
    assert any("7.93" in note for note in resolve("Taxi-v4", ["solved_at=8"]).notes)
    assert not resolve("Taxi-v4").notes
    assert not resolve("FrozenLake-v1", ["solved_at=0.99", "env.kwargs.is_slippery=false"]).notes


@pytest.mark.parametrize(
    ("reference", "overrides", "says"),
    [
        ("CliffWalking-v1", ["solved_at=-12"], ["env.solved_at -12 (override)", "-13 (the env's optimum)"]),
        (
            "CartPole-v1",
            ["env.max_episode_steps=123"],
            ["env.solved_at 475 (recipe) and stop.eval_return 500 (recipe)", "123 (by the env's rewards"],
        ),
        ("CartPole-v1", ["env.max_episode_steps=50"], ["is 50 ("]),
        (
            "CartPole-v1",
            ["stop.train_return=300", "solved_at=200", "env.max_episode_steps=250"],
            ["stop.train_return 300 (override)", "250"],
        ),
        ("CartPole-v1", ["stop.eval_return=200", "solved_at=490", "env.max_episode_steps=250"], ["env.solved_at 490"]),
        ("Acrobot-v1", ["solved_at=5"], ["5 (override)", "is 0 ("]),
        ("Pendulum-v1", ["solved_at=10"], ["10 (override)", "is 0 ("]),
        ("MountainCar-v0", ["solved_at=-90"], ["-97.6"]),
        ("CartPole-v1", ["solved_at=501", "env.wrappers=[{observation_noise: {std: 0.1}}]"], ["501"]),
    ],
)
def test_an_unreachable_goal_is_noted_with_its_source(reference, overrides, says, clean_folder):
    (note,) = (note for note in resolve(reference, overrides).notes if "cannot be reached" in note)
    for text in says:
        assert text in note


@pytest.mark.parametrize(
    ("reference", "overrides"),
    [
        ("CartPole-v1", ["env.max_episode_steps=500"]),
        ("CartPole-v1", ["env.max_episode_steps=1000", "stop.eval_return=900"]),
        ("CliffWalking-v1", ["solved_at=-13"]),
        ("CliffWalking-v1", ["solved_at=-12", "env.max_episode_steps=10"]),  # cut off, the walk costs less
        ("MountainCar-v0", ["solved_at=-60", "env.max_episode_steps=50"]),
        ("CartPole-v1", ["stop.eval_return=501"]),  # never stop
        ("Acrobot-v1", []),
        ("Pendulum-v1", ["solved_at=-150"]),
        ("MountainCarContinuous-v0", []),
        ("Blackjack-v1", []),
    ],
)
def test_a_goal_that_may_be_reached_has_no_note(reference, overrides, clean_folder):
    assert not [note for note in resolve(reference, overrides).notes if "cannot be reached" in note]


def test_a_budget_without_a_clock_says_what_it_counts(clean_folder):
    found = resolve("CartPole-v1", budget="200k")
    assert found.recipe.budget == Steps(count=200_000)
    assert any("env_steps" in note for note in found.notes)
    assert not resolve("CartPole-v1", budget="20k vec_steps").notes


@pytest.mark.parametrize(
    "path",
    # Doom's and the Genesis' packages are installed by `make test-slow` alone.
    [
        pytest.param(p, marks=pytest.mark.slow if p.stem.startswith(("Vizdoom", "Retro")) else ())
        for p in packaged_files()
    ],
    ids=lambda path: path.stem,
)
def test_every_recipe_that_ships_is_sound_tidy_and_named_after_its_env(path, clean_folder):
    try:
        resolve_id(plain(path.read_text())["env"]["id"])
    except UserError as error:
        assert "needs an extra package" in str(error)  # noqa: PT017 - anything else is wrong
        pytest.skip(str(error))
    assert check_file(path) == []
    assert format_recipe_text(path.read_text(), path.name) == path.read_text()
    assert path.name == recipe_file_name(resolve(str(path)).recipe.env.id)
    assert resolve(resolve(str(path)).recipe.env.id).source == path
