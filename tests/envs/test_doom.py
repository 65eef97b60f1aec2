"""ViZDoom: the package's scenarios, ended rightly, leaving nothing behind, trained and resumed exactly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from gymlab.core.errors import UserError
from gymlab.envs import registry
from gymlab.envs.engines.gymnasium import GymnasiumEngine
from gymlab.envs.make import make_env
from gymlab.envs.registry import known_ids, resolve_id
from gymlab.envs.settings import EnvSettings
from gymlab.recipes.resolve import resolve
from tests.envs.trying import PPO, try_recipe
from tests.running import environment
from tests.stepping import actions, play
from tests.waiting import wait_until

SMALL = {"frame_skip": 4, "screen_resolution": "RES_160X120"}


@pytest.fixture
def _doom() -> None:
    pytest.importorskip("vizdoom", reason="pip install 'gymlab[vizdoom]'")


def test_a_missing_package_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    found = registry.importlib.util.find_spec
    monkeypatch.setattr(
        registry.importlib.util, "find_spec", lambda name, *rest: None if name == "vizdoom" else found(name, *rest)
    )
    with pytest.raises(UserError, match=r"VizdoomBasic-v1 needs an extra package: pip install 'gymlab\[vizdoom\]'"):
        resolve_id("VizdoomBasic-v1")


@pytest.mark.slow
@pytest.mark.usefixtures("_doom")
def test_running_out_of_time_is_a_truncation_with_a_last_picture(folder: Path) -> None:
    env = make_env(EnvSettings(id="VizdoomBasic-v1", kwargs=SMALL), render_mode="rgb_array")
    env.reset(seed=0)
    for _ in range(75):  # of 4 tics each: the scenario's own timer stands at 300
        obs, _, terminated, truncated, _ = env.step(np.int64(0))
    assert (terminated, truncated) == (False, True)
    assert obs["screen"].std() > 0
    env.reset(seed=0)
    before, ended, step = env.render(), False, 0
    while not ended:  # walk and shoot until the monster is hit
        before = env.render()
        _, reward, ended, truncated, _ = env.step(np.int64([1, 2, 1, 3, 3][step % 5]))
        assert not truncated
        step += 1
    assert reward > 90
    assert (env.render() == before).all()
    env.close()
    assert list(folder.iterdir()) == []  # nor does it leave files in the folder of the user


@pytest.mark.slow
@pytest.mark.usefixtures("_doom")
def test_the_wrapper_shows_small_grey_stacks_and_scaled_variables() -> None:
    env = make_env(
        EnvSettings(id="VizdoomBasic-v1", kwargs=SMALL, wrappers=({"doom": {"size": [30, 40], "stack": 2}},))
    )
    obs, _ = env.reset(seed=1)
    assert env.observation_space.contains(obs)
    assert obs["screen"].shape == (30, 40, 2)
    assert not obs["screen"][:, :, 0].any()
    assert obs["variables"].tolist() == [0.5]  # 50 bullets
    then, *_ = env.step(np.int64(1))
    assert (then["screen"][:, :, 0] == obs["screen"][:, :, 1]).all()
    env.close()
    colour = make_env(EnvSettings(id="VizdoomBasic-v1", kwargs=SMALL, wrappers=({"doom": {"grayscale": False}},)))
    assert colour.observation_space["screen"].shape == (60, 80, 12)
    with pytest.raises(UserError, match="wrapper 'doom' needs a scenario of ViZDoom"):
        make_env(EnvSettings(id="CartPole-v1", wrappers=("doom",)))
    with pytest.raises(UserError, match=r"wrapper 'doom': unknown argument 'sise': did you mean 'size'\?"):
        make_env(EnvSettings(id="VizdoomBasic-v1", wrappers=({"doom": {"sise": [30, 40]}},)))


@pytest.mark.slow
@pytest.mark.usefixtures("_doom")
def test_an_episode_is_a_function_of_its_seed_and_actions() -> None:
    settings = resolve("VizdoomHealthGathering-v1").recipe.env.model_copy(update={"max_episode_steps": 12})
    with GymnasiumEngine(settings, 2, 5) as engine, GymnasiumEngine(settings, 2, 5) as other:
        engine.reset()
        moves = actions(engine, 50)
        play(engine, moves[:30])
        kept = engine.snapshot()
        assert (kept["episode"] == 2).all()
        restored = other.restore(kept)
        assert restored.exact, restored.reason
        assert play(engine, moves[30:]) == play(other, moves[30:])


@pytest.mark.slow
@pytest.mark.usefixtures("_doom")
def test_scenarios_are_offered_and_single_levels_are_not() -> None:
    ids = [name for name in known_ids() if name.startswith("Vizdoom")]
    assert {"VizdoomBasic-v1", "VizdoomHealthGathering-v1", "VizdoomDeathmatch-v1"} <= set(ids)
    assert len(ids) < 50
    assert gymnasium.spec("VizdoomBasic-v1").entry_point == "gymlab.envs.games.doom:make_scenario"


@pytest.mark.slow
@pytest.mark.usefixtures("_doom")
def test_no_engine_outlives_a_process_that_is_killed(folder: Path) -> None:
    code = (
        "import time; from gymlab.envs.make import make_env; from gymlab.envs.settings import EnvSettings; "
        "env = make_env(EnvSettings(id='VizdoomBasic-v1')); env.reset(seed=0); "
        "print(env.get_wrapper_attr('_folder'), flush=True); time.sleep(100)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment(), cwd=folder
    )
    assert process.stdout is not None
    mark = process.stdout.readline().strip()
    assert _running(mark) == 1
    process.send_signal(signal.SIGKILL)
    process.communicate()
    wait_until(lambda: not _running(mark) and not Path(mark).exists(), "the end of the engine")


def _running(mark: str) -> int:
    """Engines whose settings file is in the folder `mark`."""
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path("/proc", name, "cmdline").read_text().split("\0")
        except OSError:
            continue
        count += any(word.startswith(f"{mark}/") for word in words)
    return count


@pytest.mark.slow
@pytest.mark.usefixtures("_doom")
@pytest.mark.parametrize("scenario", ["VizdoomBasic-v1", "VizdoomHealthGathering-v1"])
def test_a_scenario_trains_evaluates_and_resumes_exactly(scenario: str, folder: Path) -> None:
    assert try_recipe(f"{scenario}:ppo", "env.wrappers=[{doom: {size: [36, 48], stack: 2}}]", *PPO) == []
    assert list(folder.iterdir()) == []


@pytest.mark.slow
@pytest.mark.usefixtures("_doom")
def test_a_scenario_is_filmed_while_it_trains(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GYMLAB_VIDEO")
    pytest.importorskip("av", reason="pip install 'gymlab[video]'")
    tiny = ["n_envs=2", "n_steps=16", *PPO, "env.max_episode_steps=12", "statistics=basic", "eval.final_episodes=1"]
    judged = ["eval.episodes=1", "eval.every=100%", "clips=[final]", "--full-budget"]
    done = cli("train", "VizdoomBasic-v1:ppo", "--run-id", "seen", "--budget", "64", *tiny, *judged)
    assert done.code == 0, done.out + done.err
    log = (cli.folder / "runs/seen/run.log").read_text()
    assert list((cli.folder / "runs/seen/videos").glob("*.mp4")), done.out + log
    assert [path.name for path in cli.folder.iterdir()] == ["runs"]
