"""Periodic evaluations of a compiled env are compiled; the confirming and the final one are on the Gymnasium env."""

import pytest

from gymlab.recipes.resolve import resolve
from gymlab.runs.metrics_reader import MetricsReader
from gymlab.runs.paths import RunPaths
from gymlab.runs.status import read_status
from gymlab.session.session import Options
from gymlab.session.start import train
from gymlab.training.events import Evaluated, Feature

SMALL = ["n_envs=2", "n_steps=16", "batch_size=16", "epochs=1", "policy.hidden=[4]", "metrics.statistics=basic"]
SHORT = ["budget=96", "eval.every=32", "eval.episodes=2", "eval.final_episodes=3", "stop.eval_return=1"]


class Watch(Feature):
    name = "watch"

    def __init__(self):
        self.seen = []

    def __call__(self, event, control):
        if isinstance(event, Evaluated):
            self.seen.append((event.kind, event.evaluation.source))


@pytest.mark.parametrize(
    ("more", "source"),
    [([], "compiled"), (["engine=gymnasium"], "gymnasium"), (["eval.steps=20"], "gymnasium")],
    ids=lambda value: " ".join(value) or "compiled" if isinstance(value, list) else "",
)
def test_periodic_evaluations_of_a_port_are_compiled_and_what_decides_never_is(tmp_path, more, source):
    watch = Watch()
    result = train(resolve("CartPole-v1:ppo", [*SMALL, *SHORT, *more]).recipe, Options(), tmp_path, watchers=[watch])
    assert watch.seen == [("periodic", source), ("confirm", "gymnasium"), ("final", "gymnasium")]
    assert result.as_json()["eval_source"] == "gymnasium"
    assert read_status(RunPaths(result.run_dir))["summary"]["eval_source"] == "gymnasium"
    with MetricsReader(RunPaths(result.run_dir).metrics) as reader:
        assert reader.read(["eval/compiled"])["eval/compiled"][-1] == 0
    assert result.evaluated.evaluation.episodes.endswith(" Gymnasium episodes")
