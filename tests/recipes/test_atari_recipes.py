"""Atari recipes end to end, and what `gymlab trace` prints of their networks."""

from __future__ import annotations

import json

import pytest

from gymlab.core.errors import UserError
from gymlab.envs.make import make_env
from gymlab.envs.wrapper_stacks import wrapper_stacks
from gymlab.recipes.resolve import resolve
from gymlab.session.choose_engine import env_description, make_engine

pytest.importorskip("ale_py", reason="pip install 'gymlab[atari]'")

TINY = [
    "n_envs=2", "n_steps=4", "batch_size=8", "epochs=1", "eval.episodes=1", "eval.final_episodes=1",
    "env.max_episode_steps=5", "eval.every=100%", "metrics.statistics=basic", "--full-budget",
]  # fmt: skip
SMALL_PICTURES = "env.wrappers=[{atari: {episodic_life: true, size: [12, 12], stack: 2}}]"


def deterministic(recipe: str) -> bool:
    made = make_env(resolve(recipe).recipe.env)
    return made._saved_kwargs["repeat_action_probability"] == 0.0


def test_the_deterministic_variants_have_no_sticky_actions() -> None:
    assert deterministic("ALE/Pong-v5:objects-deterministic")
    assert deterministic("ALE/Pong-v5:rgb-deterministic")
    assert not deterministic("ALE/Pong-v5:objects")
    assert not deterministic("ALE/Breakout-v5:rgb")


def test_pong_is_solved_later_without_sticky_actions() -> None:
    variants = ("objects", "objects-deterministic")
    solved = [resolve(f"ALE/Pong-v5:{variant}").recipe.env.solved_at for variant in variants]
    assert solved == [18, 20]


def test_pictures_are_played_natively_and_the_manifest_has_every_value() -> None:
    recipe = resolve("ALE/Breakout-v5:rgb").recipe
    engine, reason = make_engine(recipe, 0, None)
    engine.close()
    assert engine.name == "ale"
    assert reason.startswith("it plays Atari pictures natively; evaluation's Python path draws sticky actions from")
    told = env_description(recipe.env, wrapper_stacks(recipe.env), 27_000)
    stack = next(layer for layer in told["stack"] if layer.startswith("AtariPictures"))
    for fact in (
        "frameskip=4", "repeat_action_probability=0.25", "noop_max=30", "fire_reset=True", "episodic_life=True",
        "max_pool=True", "grayscale=True", "size=(84, 84)", "stack=4", "clip_reward=True", "full_action_space=False",
    ):  # fmt: skip
        assert fact in stack
    asked = resolve("ALE/Breakout-v5:rgb", ["engine=gymnasium", "vectorization=sync", "n_envs=1", "batch_size=128"])
    engine, _ = make_engine(asked.recipe, 0, None)
    engine.close()
    assert engine.name == "gymnasium"
    with pytest.raises(UserError, match="engine: ale cannot run this recipe"):
        make_engine(resolve("CartPole-v1", ["engine=ale"]).recipe, 0, None)


@pytest.mark.slow
def test_a_picture_run_goes_on_exactly_where_it_stopped(cli) -> None:
    given = [*TINY, "--set", SMALL_PICTURES, "encoder=small_cnn", "--json"]
    done = cli("train", "ALE/Breakout-v5:rgb", "--run-id", "whole", "--budget", "64", *given)
    assert done.code == 0, done.out + done.err
    assert cli("train", "ALE/Breakout-v5:rgb", "--run-id", "cut", "--budget", "32", *given).code == 0
    longer = cli("train", "--resume", "cut", "--budget", "64", "--reschedule", "--json")
    assert longer.code == 0, longer.out + longer.err
    assert "not exact" not in longer.out + longer.err


def test_trace_prints_each_layer_with_shape_mean_std_and_weights(cli) -> None:
    done = cli("trace", "MinAtar/Breakout-v1", "--json", "--batch", 2)
    assert done.code == 0, done.err
    told = json.loads(done.out)
    layers = {row["layer"]: row for row in told["layers"]}
    assert layers["observation"]["shape"] == [10, 10, 4]
    assert layers["policy_trunk.encoder.conv0"]["shape"] == [8, 8, 16]
    assert layers["policy_trunk.encoder.conv0"]["parameters"] == 3 * 3 * 4 * 16 + 16
    assert layers["policy_trunk.encoder.dense"]["parameters"] == 8 * 8 * 16 * 128 + 128
    assert layers["policy_head"]["shape"] == [3]
    assert all(row["std"] >= 0 for row in layers.values())
    assert told["parameters"] == sum(row["parameters"] for row in layers.values())


def test_trace_knows_plain_and_dict_observations(cli) -> None:
    for recipe, layer in (("CartPole-v1", "observation"), ("tests.example_envs:Custom-v0", "observation.position")):
        done = cli("trace", recipe, "hidden=[8]")
        assert done.code == 0, done.err
        assert done.out.splitlines()[0].split() == ["layer", "output", "mean", "std", "parameters"]
        assert any(line.startswith(f"{layer} ") for line in done.out.splitlines())
        assert any(line.startswith("policy_trunk.0 ") for line in done.out.splitlines())
    assert cli("trace", "CartPole-v9").code == 2
