"""Which engine configurations are compared, which one is recommended, and what is written of it."""

import tomllib

import pytest

from gymlab.core.errors import GymlabError
from gymlab.core.statistics import Estimate
from gymlab.recipes.resolve import resolve
from gymlab.session.throughput import EngineConfig, Throughput, engine_configs, overrides_for, recommend
from tests.running import gymlab, last_json


def timed(engine, n_envs, speed, vectorization="auto"):
    return Throughput(
        EngineConfig(engine, vectorization, n_envs, 1), None if speed is None else Estimate(speed, speed, speed)
    )


def test_rollouts_keep_their_size_whatever_the_number_of_envs():
    compared = engine_configs(resolve("CartPole-v1:ppo").recipe)  # 8 x 32, batches of 256
    assert {(way.n_envs, way.n_steps) for way in compared} == {(4, 64), (8, 32), (16, 16), (32, 8)}
    assert {way.label for way in compared} >= {"jax", "gymnasium, sync"}
    short = engine_configs(
        resolve("CartPole-v1:a2c").recipe
    )  # 8 x 5: more envs would leave less than five steps of each
    assert {(way.n_envs, way.n_steps) for way in short} == {(4, 10), (8, 5)}
    assert {way.n_envs for way in engine_configs(resolve("CartPole-v1:ppo").recipe, [2, 128])} == {2, 128}


def test_the_fewest_envs_that_come_close_to_the_best_are_recommended():
    found = [timed("jax", 8, 100.0), timed("jax", 16, 960.0), timed("jax", 32, 1000.0), timed("ale", 8, None)]
    assert recommend(found).config.n_envs == 16
    assert recommend([timed("gymnasium", 16, 990.0), *found]).config.engine == "gymnasium"  # as few, and faster
    with pytest.raises(GymlabError, match="no engine"):
        recommend([timed("ale", 8, None)])


def test_only_what_a_recipe_does_not_do_by_itself_becomes_an_override():
    recipe = resolve("CartPole-v1:ppo").recipe
    assert overrides_for(recipe, EngineConfig("jax", "auto", 8, 32)) == []
    assert overrides_for(recipe, EngineConfig("jax", "auto", 16, 16)) == ["n_envs=16", "n_steps=16"]
    slow = overrides_for(recipe, EngineConfig("gymnasium", "sync", 8, 32))
    assert slow == ["engine=gymnasium", "vectorization=sync"]


@pytest.mark.slow
def test_a_recommendation_is_measured_printed_and_written_for_the_next_run(folder):
    own = {"GYMLAB_CONFIG": str(folder / "mine.toml")}
    (folder / "mine.toml").write_text("# mine\n")
    tiny = ["policy.hidden=[4]", "n_steps=8", "n_envs=4", "batch_size=32", "epochs=1", "vectorization=sync"]
    options = ["--n-envs", 2, "--seconds", 0.1, "--write", "--json"]
    told = last_json(gymlab("tune-envs", "Bandit-v0", *tiny, *options, cwd=folder, **own))
    assert {(way["n_envs"], way["n_steps"]) for way in told["ways"]} == {(2, 16)}
    measured = [way for way in told["ways"] if way["steps_per_second"] is not None]
    assert all(way["low"] <= way["steps_per_second"] <= way["high"] for way in measured)
    assert "no Atari game" in next(way["reason"] for way in told["ways"] if way["engine"] == "ale")
    assert told["recommended"]["steps_per_second"] == max(way["steps_per_second"] for way in measured)
    assert {"n_envs=2", "n_steps=16", "batch_size=32"} <= set(told["overrides"])  # and what was typed along with them
    assert "n_envs=4" not in told["overrides"]
    assert tomllib.loads((folder / "mine.toml").read_text()) == {"overrides": {"Bandit-v0:ppo": told["overrides"]}}
    shown = gymlab("config", "show", "Bandit-v0", cwd=folder, **own).stdout
    assert f"# note: from {folder / 'mine.toml'}: {' '.join(told['overrides'])}" in shown
    assert "n_envs: 2" in shown
