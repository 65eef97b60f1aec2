"""What a run leaves behind that fails: status, registry, report and store agree on how far it came."""

import json

import pytest

from gymlab.core.errors import RunError
from gymlab.recipes.resolve import resolve
from gymlab.runs.metrics_reader import MetricsReader
from gymlab.runs.paths import RunPaths
from gymlab.runs.registry import Registry
from gymlab.runs.status import read_status
from gymlab.session.session import Options
from gymlab.session.start import train

TINY = ["n_envs=2", "n_steps=2", "policy.hidden=[4]", "metrics.statistics=basic", "vectorization=sync"]


def test_a_failed_run_agrees_with_itself_and_has_a_report(tmp_path):
    # Each episode fails at its 5th step: after two updates of 2 envs x 2 steps, in the third.
    recipe = resolve("tests.example_envs:Faulty-v0:a2c", [*TINY, "eval.every=100%"], budget="4000").recipe
    with pytest.raises(RunError, match="failed in episode 0"):
        train(recipe, Options(run_id="broken"), tmp_path)
    paths = RunPaths(tmp_path / "broken")
    with MetricsReader(paths.metrics) as reader:
        row = reader.last()
    status = read_status(paths)
    assert status["status"] == "failed"
    assert {name: status["clock"][name] for name in ("updates", "env_steps", "seconds")} == {
        "updates": 2, "env_steps": 8, "seconds": row["seconds"],
    }  # fmt: skip
    assert (row["updates"], row["env_steps"]) == (2, 8)
    (listed,) = Registry(tmp_path).runs()
    report = json.loads((paths.root / "report.json").read_text())["result"]
    assert (report["status"], report["updates"], report["env_steps"]) == ("failed", 2, 8)
    assert "failed in episode 0" in report["stop_reason"]
    assert "failed" in paths.report.read_text()
    assert listed["env_steps"] == 8
