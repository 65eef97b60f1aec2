"""Notebooks: `learn` in a Jupyter kernel, with its progress bar."""

import json
import re
import sys

import pytest

from tests.running import environment

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

PREPARE = """
from gymlab.sb3 import PPO
size = dict(n_steps=64, batch_size=64, n_epochs=1)
quiet, loud = (PPO("MlpPolicy", "CartPole-v1", verbose=verbose, **size) for verbose in (0, 1))
"""
LEARN = "{}.learn(128, progress_bar=True).num_timesteps"
WITHOUT_WIDGETS = "import sys; sys.modules['ipywidgets'] = None"
WITH_WIDGETS = "del sys.modules['ipywidgets']; import ipywidgets"


@pytest.fixture
def execute(tmp_path, monkeypatch):
    """Run cells in a new kernel of this Python; gives the outputs of each."""
    kernel = {"argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], "language": "python"}
    folder = tmp_path / "kernels" / "python3"
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(json.dumps({**kernel, "display_name": "Python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.delenv("PYTHONWARNINGS", raising=False)

    def run(*cells):
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        client = nbclient.NotebookClient(
            notebook, kernel_name="python3", timeout=180, resources={"metadata": {"path": str(tmp_path)}}
        )
        client.execute()
        return [cell.outputs for cell in notebook.cells]

    return run


def test_learn_shows_its_bar_in_a_notebook_with_and_without_widgets(execute):
    pytest.importorskip("ipywidgets")
    quiet = LEARN.format("quiet")
    loud = LEARN.format("loud")
    _, _, *learnt = execute(PREPARE, WITHOUT_WIDGETS, quiet, loud, WITH_WIDGETS + "\n" + quiet, loud)
    for number, outputs in enumerate(learnt):
        printed = "".join(output.text for output in outputs if output.output_type == "stream")
        assert ("total_timesteps" in printed) == bool(number % 2), printed
        assert "Traceback" not in printed
        (bar,) = [output.data["text/plain"] for output in outputs if output.output_type == "display_data"]
        assert re.fullmatch(r"━{40} 128/128 \d:\d\d 0:00", bar)
        assert outputs[-1].data["text/plain"] == "128"
