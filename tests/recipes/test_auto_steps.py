"""`n_steps: auto` and `auto_reward_gap`: measured on the env, told, and written as a number."""

import numpy as np
import pytest

from gymlab.core.errors import UserError
from gymlab.envs.settings import EnvSettings
from gymlab.recipes.auto_steps import fitting_n_steps, probe
from gymlab.recipes.resolve import read_run_recipe, resolve

pytestmark = pytest.mark.fast


def test_a_gap_is_the_steps_between_rewards_that_tell_something():
    cartpole = probe(EnvSettings(id="CartPole-v1"))
    assert cartpole.gap == cartpole.episode  # +1 at every step tells nothing: only the end does
    assert 15 < cartpole.gap < 35
    mountain_car = probe(EnvSettings(id="MountainCar-v0"))
    assert (mountain_car.gap, mountain_car.episode) == (200, 200)  # -1 until the time limit
    assert probe(EnvSettings(id="Pendulum-v1")).gap < 1.01  # every reward differs
    assert probe(EnvSettings(id="MountainCar-v0", max_episode_steps=50)).gap == 50


def test_the_gap_is_rounded_up_to_a_power_of_two_and_auto_also_wants_2048_steps():
    gap = resolve("MountainCar-v0:ppo", ["n_steps=auto_reward_gap"])
    assert gap.recipe.n_steps == 256
    assert any(note.startswith("n_steps: auto_reward_gap is 256: in 1000 random steps") for note in gap.notes)
    assert resolve("Pendulum-v1:a2c", ["n_steps=auto"]).recipe.n_steps == 2048 // 8
    assert resolve("Pendulum-v1:a2c", ["n_steps=auto_reward_gap"]).recipe.n_steps == 8


def test_a_number_is_chosen_that_the_batch_size_divides():
    recipe = resolve("CartPole-v1:ppo", ["n_steps=auto_reward_gap", "n_envs=3", "batch_size=36"]).recipe
    assert recipe.n_steps == 24  # 32 x 3 is no multiple of 36, 24 x 3 is
    settings = resolve("CartPole-v1:ppo").recipe.algorithm.settings  # batch_size 256
    assert fitting_n_steps(settings, 8, 100) == 96
    assert fitting_n_steps(settings, 8, 3) == 32  # nothing below fits


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["n_steps=atuo"], "n_steps: expected a whole number, got 'atuo'"),
        (["n_steps=auto", "n_envs=0"], "n_envs: must be at least 1, got 0"),
        (["n_steps=auto", "batch_size=-1"], "batch_size"),
        (["n_steps=auto", "n_envs=many"], "n_envs: expected a whole number, got 'many'"),
    ],
)
def test_what_is_wrong_is_told_whatever_is_automatic(overrides, says):
    with pytest.raises(UserError, match=says):
        resolve("CartPole-v1:ppo", overrides)


def test_the_run_holds_the_number_and_the_note(cli):
    tiny = ["policy.hidden=[4]", "n_envs=2", "batch_size=16", "epochs=1", "eval.every=100%", "eval.final_episodes=1"]
    tiny.append("metrics.statistics=basic")
    done = cli("train", "CartPole-v1", "n_steps=auto_reward_gap", *tiny, "--budget", 64, "--run-id", "r")
    assert done.code == 0, done.err
    run = cli.folder / "runs/r"
    n_steps = read_run_recipe(run / "recipe.yaml").n_steps
    assert n_steps == 1 << int(np.ceil(np.log2(probe(EnvSettings(id="CartPole-v1")).gap)))
    assert f"note: n_steps: auto_reward_gap is {n_steps}" in (run / "run.log").read_text()
    assert f"n_steps: auto_reward_gap is {n_steps}" in done.out
