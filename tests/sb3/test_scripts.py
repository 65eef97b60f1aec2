"""The quick-start scripts of the Stable-Baselines3 documentation, with other import lines and shorter endless loops."""

import runpy
import warnings
from pathlib import Path

import pytest

from gymlab.sb3 import SlowerEngine

SCRIPTS = Path(__file__).parent / "scripts"
WARNS = {"custom_callback": SlowerEngine, "callback_collection": SlowerEngine, "multiprocessing_envs": UserWarning}
NAMES = sorted(path.stem for path in SCRIPTS.glob("*.py") if path.stem != "stop_on_reward")
LONG = ("a2c", "multiprocessing_envs")


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow if name in LONG else []) for name in NAMES])
def test_a_script_of_the_documentation_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    with warnings.catch_warnings():
        if name in WARNS:
            warnings.simplefilter("ignore", WARNS[name])
        after = runpy.run_path(str(SCRIPTS / f"{name}.py"), run_name="__main__")
    assert after["model"].num_timesteps > 0
    assert not (tmp_path / "runs").exists()


def test_the_scripts_change_nothing_but_their_imports():
    """What stays of Stable-Baselines3 in them is its names: none of gymlab's own arguments is used."""
    for path in SCRIPTS.glob("*.py"):
        body = "\n".join(line for line in path.read_text().splitlines() if "import" not in line)
        assert "gymlab" not in body, path.name


def test_the_callback_that_stops_on_a_reward_does_so_long_before_the_budget(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.warns(SlowerEngine, match="host engine"):
        after = runpy.run_path(str(SCRIPTS / "stop_on_reward.py"), run_name="__main__")
    assert after["model"].num_timesteps < 100_000
    assert after["eval_callback"].best_mean_reward >= 150
    assert "Stopping training because the mean reward" in capsys.readouterr().out
