"""stable-retro: any number of emulators, each in its own process, played exactly again from a seed."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gymlab.core.errors import RunError, UserError
from gymlab.envs import registry
from gymlab.envs.engines.gymnasium import GymnasiumEngine
from gymlab.envs.make import make_env
from gymlab.envs.registry import known_ids, resolve_id
from gymlab.envs.settings import EnvSettings
from tests.envs.trying import PPO, try_recipe
from tests.stepping import actions, play

AIRSTRIKER = "Retro/Airstriker-Genesis-v0"


@pytest.fixture
def _retro() -> None:
    pytest.importorskip("stable_retro", reason="pip install 'gymlab[retro]'")


def test_a_missing_package_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    found = registry.importlib.util.find_spec
    monkeypatch.setattr(
        registry.importlib.util, "find_spec", lambda name, *rest: None if "retro" in name else found(name, *rest)
    )
    with pytest.raises(UserError, match=rf"{AIRSTRIKER} needs an extra package: pip install 'gymlab\[retro\]'"):
        resolve_id(AIRSTRIKER)


@pytest.mark.slow
@pytest.mark.usefixtures("_retro")
def test_what_cannot_be_played_is_told() -> None:
    assert AIRSTRIKER in known_ids()
    with pytest.raises(UserError, match=f"did you mean '{AIRSTRIKER}'"):
        resolve_id("Retro/Airstriker-Genesis-v1")
    with pytest.raises(UserError, match=r"cannot be played: FileNotFoundError.*import the ROM"):
        make_env(EnvSettings(id="Retro/1942-Nes-v0"))
    with pytest.raises(UserError, match="frameskip=0 must be at least 1"):
        make_env(EnvSettings(id=AIRSTRIKER, kwargs={"frameskip": 0}))
    with pytest.raises(UserError, match="no button 'LEFTT': did you mean 'LEFT'"):
        make_env(EnvSettings(id=AIRSTRIKER, kwargs={"actions": [["LEFTT"]]}))


@pytest.mark.slow
@pytest.mark.usefixtures("_retro")
def test_many_play_side_by_side_and_come_back_exactly() -> None:
    # Five emulators at once in this one process, which stable-retro by itself refuses.
    settings = EnvSettings(id=AIRSTRIKER, max_episode_steps=9)
    with GymnasiumEngine(settings, 2, 5) as engine, GymnasiumEngine(settings, 2, 5) as other:
        camera = make_env(settings, render_mode="rgb_array")
        start, _ = camera.reset(seed=1)
        assert (camera.render() == start).all()
        assert camera.unwrapped.get_action_meanings()[:3] == ["nothing", "b", "left"]  # type: ignore[attr-defined]
        engine.reset()
        moves = actions(engine, 30)
        play(engine, moves[:20])
        kept = engine.snapshot()
        assert (kept["episode"] == 2).all()
        restored = other.restore(kept)
        assert restored.exact, restored.reason
        assert play(engine, moves[20:]) == play(other, moves[20:])
        camera.close()


@pytest.mark.slow
@pytest.mark.usefixtures("_retro")
def test_an_emulator_that_dies_is_a_fault_of_its_env() -> None:
    def crash(engine: GymnasiumEngine) -> None:
        engine.reset()
        os.kill(engine.envs[1].unwrapped._emulator.pid, signal.SIGKILL)  # type: ignore[attr-defined]
        engine.step(np.zeros(2, int))

    with (
        GymnasiumEngine(EnvSettings(id=AIRSTRIKER), 2, 0) as engine,
        pytest.raises(RunError, match=r"env 1 .*the emulator of Airstriker-Genesis-v0 ended with exit code -9"),
    ):
        crash(engine)
    with GymnasiumEngine(EnvSettings(id=AIRSTRIKER, on_error="restart"), 2, 0) as engine:
        crash(engine)
        assert engine.restarts == 1
        engine.step(np.zeros(2, int))


@pytest.mark.slow
@pytest.mark.usefixtures("_retro")
@pytest.mark.parametrize("vectorization", ["sync", "processes"])
def test_airstriker_trains_evaluates_and_resumes_exactly(vectorization: str, folder: Path) -> None:
    small = "env.wrappers=[grayscale, {resize: [28, 40]}, {frame_stack: 2}]"
    changes = [small, "encoder=small_cnn", f"vectorization={vectorization}", *PPO]
    assert try_recipe(f"{AIRSTRIKER}:ppo", *changes) == []
    assert list(folder.iterdir()) == []


@pytest.mark.slow
@pytest.mark.usefixtures("_retro")
def test_airstriker_is_evaluated_and_filmed_while_it_trains(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GYMLAB_VIDEO")
    pytest.importorskip("av", reason="pip install 'gymlab[video]'")
    tiny = ["n_envs=2", "n_steps=16", *PPO, "env.max_episode_steps=12", "statistics=basic", "eval.final_episodes=1"]
    judged = ["eval.episodes=1", "eval.every=50%", "clips=[final]", "--full-budget"]
    done = cli("train", f"{AIRSTRIKER}:ppo", "--run-id", "seen", "--budget", "64", *tiny, *judged)
    assert done.code == 0, done.out + done.err
    log = (cli.folder / "runs/seen/run.log").read_text()
    assert list((cli.folder / "runs/seen/videos").glob("*.mp4")), done.out + log
