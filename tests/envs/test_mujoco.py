"""MuJoCo's envs: trained and resumed exactly, and drawn in a way that cannot take the process along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gymlab.core.errors import UserError
from gymlab.envs import mujoco
from gymlab.envs.check import check_env
from gymlab.envs.make import make_env
from gymlab.envs.settings import EnvSettings
from gymlab.media.camera import make_filmed
from tests.envs.trying import PPO, try_recipe

CHEETAH = EnvSettings(id="HalfCheetah-v5")


def test_a_way_to_draw_that_ends_the_process_is_only_reported() -> None:
    assert mujoco.try_backend("egl", "import os; os.abort()") == "it ended the process with signal 6"
    assert mujoco.try_backend("egl", "raise ValueError('no display')") == "ValueError: no display"
    assert mujoco.try_backend("egl", "pass") == ""


def test_the_first_way_that_works_is_taken() -> None:
    problems = {"egl": "no driver", "osmesa": "", "glfw": "no screen"}
    assert mujoco.first_working(list(problems), problems.__getitem__) == ("osmesa", (("egl", "no driver"),))
    assert mujoco.first_working(["egl"], problems.__getitem__) == ("", (("egl", "no driver"),))


@pytest.fixture
def _mujoco() -> None:
    pytest.importorskip("mujoco", reason="pip install 'gymlab[mujoco]'")
    pytest.importorskip("imageio", reason="pip install 'gymlab[mujoco]'")


@pytest.mark.usefixtures("_mujoco")
def test_its_warnings_are_logged_once_and_leave_no_file(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    mujoco._logged.clear()
    env = make_env(CHEETAH)
    env.reset(seed=0)
    inner: Any = env.unwrapped
    for _ in range(3):
        inner.set_state(np.full(9, 1e12), np.full(9, 1e12))
        env.step(np.ones(6, np.float32))
    assert [line for line in caplog.messages if "unstable" in line] == [
        "MuJoCo: Nan, Inf or huge value in QPOS at DOF 0. The simulation is unstable."
    ]
    assert list(folder.iterdir()) == []


@pytest.mark.usefixtures("_mujoco")
def test_where_mujoco_cannot_draw_training_goes_on_and_films_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUJOCO_GL", "none")
    make_env(CHEETAH).close()
    for draw in (make_filmed, lambda settings: make_env(settings, render_mode="rgb_array")):
        with pytest.raises(UserError, match=r"MuJoCo cannot draw here \(none: .*\): unset MUJOCO_GL"):
            draw(CHEETAH)
    pictures = CHEETAH.model_copy(update={"wrappers": EnvSettings(id="x", wrappers=("pixels",)).wrappers})
    with pytest.raises(UserError, match="MuJoCo cannot draw here"):
        make_env(pictures)
    (finding,) = [found for found in check_env("HalfCheetah-v5") if found.title == "rendering"]
    assert (finding.level, finding.fix) == ("warn", "unset MUJOCO_GL to have others tried")


@pytest.mark.slow
@pytest.mark.usefixtures("_mujoco")
def test_half_cheetah_is_filmed_where_a_way_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    try:
        camera = make_filmed(CHEETAH)
    except UserError as error:
        pytest.skip(str(error))
    assert camera.picture().std() > 0
    camera.close()


@pytest.mark.slow
@pytest.mark.usefixtures("_mujoco")
def test_half_cheetah_trains_evaluates_and_resumes_exactly() -> None:
    assert try_recipe("HalfCheetah-v5:ppo", "n_envs=1", "n_steps=16", *PPO) == []


@pytest.mark.slow
@pytest.mark.usefixtures("_mujoco")
def test_half_cheetah_is_filmed_while_it_trains(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.delenv("GYMLAB_VIDEO")
    pytest.importorskip("av", reason="pip install 'gymlab[video]'")
    tiny = ["n_envs=1", "n_steps=32", "batch_size=32", "epochs=1", "env.max_episode_steps=20", "statistics=basic"]
    judged = ["eval.episodes=1", "eval.final_episodes=1", "eval.every=100%", "clips=[final]", "--full-budget"]
    done = cli("train", "HalfCheetah-v5:ppo", "--run-id", "seen", "--budget", "64", *tiny, *judged)
    assert done.code == 0, done.out + done.err
    assert list((cli.folder / "runs/seen/videos").glob("*.mp4")), (
        done.out + (cli.folder / "runs/seen/run.log").read_text()
    )
