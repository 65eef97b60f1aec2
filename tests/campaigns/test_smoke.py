"""`gymlab smoke`: recipes that pass, fail, crash or lack a package, and which of them are chosen."""

import json
from pathlib import Path

import pytest

from gymlab.campaigns.smoke.candidates import candidates, choose_candidates
from gymlab.campaigns.smoke.check_recipe import MOST_STEPS, check_recipe, shrinking, what_to_install
from gymlab.core.errors import UserError
from gymlab.recipes.resolve import packaged_files, resolve
from tests.recipe_files import write_recipe
from tests.running import gymlab, last_json

STAGES = ["trained", "evaluated", "saved", "resumed", "played"]
ENVS = """\
import os
import gymnasium
import numpy as np
from gymnasium.error import DependencyNotInstalled

class Good(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.random(2, np.float32), {}
    def step(self, action):
        return self.np_random.random(2, np.float32), 1.0, False, False, {}

class Crashing(Good):
    def step(self, action):
        os.abort()

class Forgetful(Good):  # draws from a stream that no seed reaches, so that no replay can be exact
    def step(self, action):
        return np.random.default_rng().random(2, np.float32), 1.0, False, False, {}

class Lacking(Good):
    def __init__(self):
        raise DependencyNotInstalled("it wants warp, run `pip install warp`")
"""
TINY = """\
env: {{id: "./envs.py:{name}", max_episode_steps: 20}}
variants:
  tiny: {{n_envs: 2, n_steps: 8, policy: {{hidden: [4]}}, ppo: {{batch_size: 16, epochs: 1}}}}
"""


def own_recipes(folder, *names):
    (Path(folder) / "envs.py").write_text(ENVS)
    for name in names:
        write_recipe(folder, TINY.format(name=name), f"recipes/{name.lower()}.yaml")


def leftovers(folder):
    return [path.name for path in Path(folder).iterdir() if path.name not in ("recipes", "envs.py", "__pycache__")]


OF_EACH_FAMILY = ["CartPole-v1:a2c", "FrozenLake-v1:reinforce", "LunarLander-v3:a2c", "recipes/pong.yaml", "Bandit-v0"]
QUICK = ("FrozenLake-v1:reinforce", "Bandit-v0")


@pytest.mark.parametrize(
    "recipe", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in OF_EACH_FAMILY]
)
def test_a_recipe_of_each_family_that_ci_has_passes_every_stage(recipe, folder):
    # A game takes a tenth of a second to load: sixteen of them are for the long suite.
    write_recipe(folder, "env: {id: ALE/Pong-v5}\nvariants: {few: {extends: objects, n_envs: 4}}", "recipes/pong.yaml")
    stages = {}
    check_recipe(recipe, folder / "runs", stages.__setitem__)
    assert list(stages) == STAGES
    assert stages["resumed"] == "exact"
    assert int(stages["played"].split()[0]) >= 20


@pytest.mark.slow
def test_one_that_crashes_one_that_lacks_a_package_and_one_that_cannot_resume_are_told_apart(folder):
    own_recipes(folder, "Crashing", "Forgetful", "Lacking")
    done = gymlab("smoke", "recipes/*", "--json", "--jobs", 1, cwd=folder, check=False, TMPDIR=str(folder))
    assert done.returncode == 1
    result = last_json(done)
    assert (result["ok"], result["passed"], result["failed"], result["skipped"]) == (False, 1, 1, 1)
    crashing, forgetful, lacking = result["recipes"]
    assert crashing["status"] == "failed"
    assert crashing["reason"].startswith("its process died (SIGABRT)")
    assert crashing["reproduce"] == "gymlab smoke recipes/crashing.yaml:tiny"
    assert "trained" not in crashing["stages"]
    assert forgetful["stages"]["resumed"] == "not exact"
    assert lacking["status"] == "skipped"
    assert "pip install warp" in lacking["reason"]
    assert leftovers(folder) == []


def test_the_table_has_a_line_for_each_recipe_and_says_why_one_failed(folder):
    own_recipes(folder, "Crashing")
    done = gymlab("smoke", "recipes/*", cwd=folder, check=False)
    assert done.returncode == 1
    assert "recipes/crashing.yaml:tiny  FAILED" in done.stdout
    assert "reproduce: gymlab smoke recipes/crashing.yaml:tiny" in done.stdout
    assert "0 passed, 1 failed, 0 skipped" in done.stdout


def test_every_variant_that_ships_is_a_candidate_and_a_users_own_stands_in_for_ours(clean_folder):
    references = [found.reference for found in candidates()]
    assert len(references) >= 30
    assert {"CartPole-v1:ppo", "CartPole-v1:pixels", "ALE/Pong-v5:rgb-deterministic"} <= set(references)
    assert len(packaged_files()) <= len(references)
    write_recipe(clean_folder, "env: {id: CartPole-v1}\nvariants: {ppo: {ppo: {}}, mine: {ppo: {}}}\n")
    now = [found.reference for found in candidates()]
    assert set(now) - set(references) == {"recipes/mine.yaml:ppo", "recipes/mine.yaml:mine"}
    assert set(references) - set(now) == {"CartPole-v1:ppo"}


def test_recipes_are_chosen_by_env_pattern_and_family(clean_folder):
    assert [found.reference for found in choose_candidates(["Pendulum-v1"])] == ["Pendulum-v1:ppo", "Pendulum-v1:a2c"]
    assert {found.reference.rpartition(":")[2] for found in choose_candidates(["*:a2c"])} == {"a2c"}
    assert {found.family for found in choose_candidates(families=["box2d", "atari"])} == {"box2d", "atari"}
    few = choose_candidates(["MountainCar-v0:ppo", "Taxi-v4", "Bandit-v0:ppo", "MinAtar/Breakout-v1"])
    assert [found.family for found in few] == ["classic_control", "toy_text", "bandit", "minatar"]
    with pytest.raises(UserError, match="did you mean 'classic_control'"):
        choose_candidates(families=["clasic_control"])
    with pytest.raises(UserError, match="no recipe is called like"):
        choose_candidates(["Cartpool*"])
    with pytest.raises(UserError, match="did you mean 'CartPole-v1'"):
        choose_candidates(["CartPol-v1"])


def test_a_wrong_name_is_the_users_mistake(cli):
    done = cli("smoke", "CartPol-v1")
    assert done.code == 2
    assert "did you mean 'CartPole-v1'" in done.err


def test_only_what_takes_long_is_shrunk():
    recipe = resolve("BipedalWalker-v3:ppo").recipe
    overrides = dict(text.split("=") for text in shrinking(recipe))
    assert int(overrides["n_steps"]) * recipe.n_envs == MOST_STEPS
    assert int(overrides["budget"]) == 2 * MOST_STEPS
    small = dict(text.split("=") for text in shrinking(resolve("CartPole-v1:a2c").recipe))
    assert "n_steps" not in small
    assert "env.max_episode_steps" not in small


def test_an_error_that_says_what_to_install_is_about_a_missing_package():
    assert what_to_install("a.yaml:3: env.id: X needs an extra package: pip install 'gymlab[atari]'\nmore") is not None
    assert what_to_install("n_envs must be at least 1") is None


@pytest.mark.slow
def test_every_recipe_passes_or_lacks_a_package(cli):
    result = json.loads(cli("smoke", "--json").out)
    assert [row for row in result["recipes"] if row["status"] == "failed"] == []
    assert result["passed"] > 25
