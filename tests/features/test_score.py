"""The score of a run follows from its updates and evaluations, not from what of them is stored."""

import pytest

from gymlab.recipes.keys import read_settings
from gymlab.recipes.resolve import resolve
from gymlab.reports.run_facts import read_facts
from gymlab.runs.metrics_reader import MetricsReader
from gymlab.runs.paths import RunPaths
from gymlab.session.session import Options
from gymlab.session.start import train

TINY = ["n_envs=2", "n_steps=8", "policy.hidden=[4]", "metrics.statistics=basic", "env.solved_at=9"]
EVALUATED = ["eval.every=25%", "eval.episodes=2", "eval.final_episodes=2"]


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    """The scores of one run, stored by every update and by every fifth: in the store, and as reports read them."""
    folder = tmp_path_factory.mktemp("runs")
    found = []
    for rows_every in (1, 5):
        overrides = [*TINY, *EVALUATED, f"metrics.rows_every={rows_every}"]
        recipe = resolve("CartPole-v1:a2c", overrides, budget="480").recipe
        paths = RunPaths(train(recipe, Options(full_budget=True), folder).run_dir)
        with MetricsReader(paths.metrics) as reader:
            last = {name: value for name, value in reader.last().items() if name.startswith("score/")}
        found.append((last, read_facts(paths, read_settings(paths.recipe)).score))
    return found


def test_the_score_does_not_depend_on_how_many_rows_are_stored(scores):
    (every, report), (fifth, report_of_fifth) = scores
    assert fifth == every
    assert report_of_fifth == report
    assert report.auc == every["score/auc"]


def test_the_threshold_is_stored_on_both_step_clocks(scores):
    last = scores[0][0]
    assert last["score/steps_to_threshold"] == 128  # the first update that crosses a quarter of 480, in 16s
    assert last["score/vec_steps_to_threshold"] == 64
