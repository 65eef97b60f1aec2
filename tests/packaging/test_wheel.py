"""The built wheel in a clean venv, used from an empty folder. Slow: it installs everything anew."""

import json
import os
import subprocess
import sys

import pytest

from tests.running import ROOT
from tests.session.test_extensions import FILES, RECIPE

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bin_folder(tmp_path_factory):
    """The programs of a venv that holds the wheel and nothing of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    programs = folder / "venv" / "bin"
    pinned = subprocess.run([sys.executable, ROOT / "tools/constraints.py"], capture_output=True, text=True, check=True)
    constraints = ROOT / pinned.stdout.strip()
    install = [programs / "python", "-m", "pip", "install", "-q", "-c", constraints, wheel]
    subprocess.run(install, check=True)
    return programs


def run(programs, *arguments, cwd):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("GYMLAB", "PYTHON"))}
    done = subprocess.run(
        [programs / "gymlab", *arguments], cwd=cwd, env=clean, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "fork" not in done.stderr
    return done.stdout


def test_init_edit_train_eval(bin_folder, tmp_path):
    assert "gymlab train" in run(bin_folder, "init", "CartPole-v1", cwd=tmp_path)
    recipe = tmp_path / "recipes" / "CartPole-v1.yaml"
    text = recipe.read_text()
    assert "epochs: 20" in text
    recipe.write_text(text.replace("epochs: 20", "epochs: 10"))
    assert "solved" in run(bin_folder, "train", cwd=tmp_path)
    assert json.loads(run(bin_folder, "eval", "@last", "--json", cwd=tmp_path))["eval"]["greedy"]["mean"] >= 475
    assert "epochs: 10" in next(tmp_path.glob("runs/*/recipe.yaml")).read_text()


def test_a_users_algorithm_and_wrapper_train_and_resume(bin_folder, tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "mine.yaml").write_text(RECIPE)
    run(bin_folder, "train", "mine.yaml:mine", "--run-id", "one", cwd=tmp_path)
    assert "1024 env_steps" in run(bin_folder, "resume", "one", "--budget", "1024", cwd=tmp_path)
