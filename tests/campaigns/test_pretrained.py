"""Policies that come with the package: whole, small, findable, and as good as they say."""

import json

import pytest

from gymlab.campaigns import pretrained
from gymlab.campaigns.pretrained import MOST_BYTES, POLICY, Pretrained, find, pretrained_policies
from gymlab.core.errors import RunError, UserError
from gymlab.recipes.schema import Recipe
from gymlab.session.build import build
from gymlab.training.named_tensors import from_tensors

SHIPPED = pretrained_policies()
every_policy = pytest.mark.parametrize("item", SHIPPED, ids=[item.name for item in SHIPPED])


def test_there_is_one_to_begin_with():
    assert {"CartPole-v1:ppo", "FrozenLake-v1:ppo", "Acrobot-v1:ppo"} <= {item.name for item in SHIPPED}


@every_policy
def test_a_shipped_policy_is_small_and_whole_and_says_how_it_was_made(item):
    assert item.about["bytes"] == (item.path / POLICY).stat().st_size <= MOST_BYTES
    assert item.tensors()
    recipe = item.recipe()
    assert isinstance(recipe, Recipe)
    assert recipe.env.id == item.env
    assert item.about["scores"]["greedy"]["n"] >= 100
    assert item.about["command"].startswith("gymlab train")
    assert item.about["scores"]["greedy"]["mean"] >= item.about["solved_at"]


def test_a_policy_is_found_by_env_by_recipe_and_by_an_old_name():
    assert find("CartPole-v1").name == find("CartPole-v1:ppo").name == "CartPole-v1:ppo"
    assert find("Acrobot-v0").name == "Acrobot-v1:ppo"
    with pytest.raises(UserError, match="did you mean 'CartPole-v1'"):
        find("CartPole-v2")


def test_a_damaged_policy_is_refused(tmp_path):
    item = find("CartPole-v1")
    (tmp_path / POLICY).write_bytes((item.path / POLICY).read_bytes()[:-4] + b"0000")
    with pytest.raises(RunError, match="does not match its hash"):
        Pretrained(tmp_path, item.about).tensors()


def test_play_shows_a_shipped_policy(cli):
    done = cli("play", "--pretrained", "CartPole-v1", "--terminal")
    assert done.code == 0, done.err
    assert "return 500 in 500 steps" in done.out
    assert "of which env" in cli("play", "--pretrained").err
    listed = json.loads(cli("pretrained", "list", "--json").out)
    assert [about["recipe"] for about in listed] == [item.name for item in SHIPPED]


@pytest.mark.slow
@every_policy
def test_a_shipped_policy_is_as_good_as_it_says(item):
    parts = build(item.recipe(), 0)
    try:
        policy = from_tensors(parts.agent.policy(parts.program.start(0)), item.tensors())
        found = parts.evaluator.evaluate(policy, episodes=100, seed=item.about["evaluation_seed"], max_envs=100)
    finally:
        parts.program.close()
    assert found.greedy.mean == pytest.approx(item.about["scores"]["greedy"]["mean"])


def test_a_policy_too_large_for_a_shelf_is_refused(cli, monkeypatch):
    monkeypatch.setattr(pretrained, "MOST_BYTES", 10)
    item = find("CartPole-v1")
    with pytest.raises(RunError, match="limit of 10"):
        item.tensors()
