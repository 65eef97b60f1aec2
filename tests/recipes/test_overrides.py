"""`key=value` on the command line, and what changed between two recipes."""

from __future__ import annotations

import pytest

from gymlab.core.errors import UserError
from gymlab.core.schedules import parse_schedule
from gymlab.envs.settings import Part
from gymlab.recipes.overrides import diff_recipes
from gymlab.recipes.resolve import amend, resolve
from gymlab.recipes.schema import Share, Steps
from gymlab.recipes.write import variant_mapping

pytestmark = pytest.mark.fast


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def _with(*overrides, reference="CartPole-v1", **options):
    return resolve(reference, overrides, **options).recipe


@pytest.mark.parametrize("text", ["learning_rate=1e-2", "ppo.learning_rate=1e-2", " learning_rate = 1e-2"])
def test_a_leaf_name_and_a_full_path_mean_the_same(text):
    assert _with(text).algorithm.settings.learning_rate.at(0.5) == 1e-2
    assert _with(sets=[text]) == _with(text)


def test_values_are_yaml():
    recipe = _with(
        "learning_rate=[[0%, 1e-3], [100%, 1e-5]]", "hidden=[32, 16]", "budget=10k vec_steps", "eval.every=5%",
        "shared=true", "target_kl=null", "actions=[a, b]", "solved_at=-110",
    )  # fmt: skip
    assert recipe.algorithm.settings.learning_rate == parse_schedule([["0%", 1e-3], ["100%", 1e-5]])
    assert recipe.policy.hidden == (32, 16)
    assert recipe.budget == Steps(count=10_000, clock="vec_steps")
    assert recipe.eval.every == Share(share=0.05)
    assert recipe.policy.shared
    assert recipe.env.actions == ("a", "b")
    assert recipe.env.solved_at == -110


def test_env_arguments_and_wrappers_can_be_set_and_appended():
    recipe = _with("env.kwargs.gravity=-9", "env.wrappers+=[{scale_reward: 2}]", reference="LunarLander-v3")
    assert recipe.env.kwargs == {"gravity": -9}
    assert recipe.env.wrappers == (Part(name="scale_reward", value=2),)
    assert _with("wrappers=[clip_reward]", "wrappers+=[{scale_reward: 2}]").env.wrappers[0].name == "clip_reward"


def test_appending_to_a_list_that_has_a_default_keeps_the_default():
    assert _with("hidden+=[32]").policy.hidden == (64, 64, 32)


def test_a_block_is_merged_and_the_last_word_counts():
    recipe = _with("policy={shared: true}", "policy.hidden=[8]", "n_envs=4", "n_envs=16")
    assert (recipe.policy.shared, recipe.policy.hidden, recipe.n_envs) == (True, (8,), 16)


def test_the_algorithm_block_of_another_algorithm_is_refused():
    with pytest.raises(UserError, match="runs a2c, not ppo"):
        _with("ppo.epochs=3", reference="CartPole-v1:a2c")
    with pytest.raises(UserError, match="runs ppo, not a2c"):
        _with("a2c={}")


def test_ambiguous_names_are_listed():
    with pytest.raises(UserError, match=r"every: ambiguous: write one of eval\.every, checkpoints\.every"):
        _with("every=10k")


def test_options_are_overrides_with_the_last_word():
    recipe = _with("budget=1k", "engine=gymnasium", budget="2k", engine="jax", device="cpu")
    assert (recipe.budget.count, recipe.engine, recipe.device) == (2000, "jax", "cpu")


def test_a_difference_names_path_old_and_new():
    changed = _with("learning_rate=1e-2", "hidden=[8]", "n_envs=16", "env.kwargs.sutton_barto_reward=true")
    assert diff_recipes(_with(), changed) == [
        ("n_envs", 8, 16),
        ("env.kwargs.sutton_barto_reward", None, True),
        ("policy.hidden", [64, 64], [8]),
        ("ppo.learning_rate", "lin_1e-3", 0.01),
    ]
    assert diff_recipes(changed, changed) == []


def test_a_difference_between_algorithms_names_both_blocks():
    paths = [path for path, _, _ in diff_recipes(_with(), _with(reference="CartPole-v1:a2c"))]
    assert "ppo.epochs" in paths
    assert "a2c.learning_rate" in paths


def test_a_runs_recipe_can_be_amended():
    before = _with("learning_rate=1e-2")
    after = amend(before, ["gamma=0.5"], budget="1M")
    assert diff_recipes(before, after) == [("budget", "100k env_steps", "1M env_steps"), ("ppo.gamma", 0.98, 0.5)]
    assert amend(before) == before
    assert after.name == before.name


def test_a_mistake_in_an_amendment_is_the_users():
    with pytest.raises(UserError, match=r"command line: ppo\.batch_size"):
        amend(_with(), ["batch_size=100"])
    with pytest.raises(UserError, match="command line: gama: unknown key"):
        amend(_with(), ["gama=1"])


def test_a_recipe_as_plain_data_holds_every_setting():
    mapping = variant_mapping(_with())
    assert mapping["ppo"]["learning_rate"] == "lin_1e-3"
    assert mapping["env"]["id"] == "CartPole-v1"
    assert "algorithm" not in mapping
