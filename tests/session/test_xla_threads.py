"""A process for one tiny run computes in one thread: the same run, to the last bit, as with two."""

import pytest

from gymlab.recipes.resolve import resolve
from gymlab.session.xla_threads import is_tiny
from tests.running import assert_same_run, gymlab

SHORT = ["--full-budget", "eval.every=100%", "eval.final_episodes=2", "checkpoints.every=50%"]


@pytest.mark.parametrize(
    ("recipe", "tiny"),
    [
        (["CartPole-v1:ppo"], True),
        (["CartPole-v1:a2c"], True),
        (["Pendulum-v1:ppo"], True),
        (["CartPole-v1:ppo", "batch_size=512", "n_steps=64"], False),
        (["CartPole-v1:ppo", "n_envs=1024", "batch_size=256"], False),
        (["CartPole-v1:ppo", "policy.hidden=[128]"], False),
        (["CartPole-v1:ppo", "engine=gymnasium"], True),
        (["CartPole-v1:reinforce"], False),
        (["LunarLander-v3:ppo"], False),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_tiny(recipe, tiny):
    assert is_tiny(resolve(recipe[0], recipe[1:]).recipe) is tiny


@pytest.mark.parametrize("recipe", [["CartPole-v1:ppo", "budget=5k"], ["CartPole-v1:a2c", "budget=2k"]])
def test_one_thread_and_two_give_the_same_run(tmp_path, recipe):
    alone = gymlab("train", *recipe, *SHORT, "--run-id", "one", cwd=tmp_path)
    assert "finished" in alone.stdout
    gymlab("train", *recipe, *SHORT, "--run-id", "two", cwd=tmp_path, PJRT_NPROC="2")
    assert_same_run(tmp_path / "runs" / "one", tmp_path / "runs" / "two")
