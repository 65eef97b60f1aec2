"""The status file holds the score, and what may not be taken for one."""

import pytest

from gymlab.core.clock import Clock
from gymlab.features.status import StatusFile
from gymlab.runs.status import read_status
from gymlab.runs.store import RunStore
from gymlab.training.evaluation import EvalScore, Evaluation
from gymlab.training.events import Ended, Evaluated, Started, Updated

pytestmark = pytest.mark.fast


def evaluated(update, kind, mean):
    score = EvalScore(mean, 0.0, 3, 10.0, 0, 1.0)
    return Evaluated(Clock(updates=update), kind, Evaluation(score, score, 0))


def test_the_score_is_the_final_evaluation_and_the_peak_is_none(tmp_path):
    with RunStore.create(tmp_path, "one", name="n") as store:
        store.write_manifest({})
        store.start()
        feature = StatusFile(store, 475.0, "greedy")

        def summary_after(*events):
            for event in events:
                feature(event, None)
            found = read_status(store.paths)["summary"]
            return found.get("peak"), found.get("score"), found.get("solved")

        assert summary_after(Started(Clock(), False), evaluated(1, "periodic", 500.0)) == (500.0, None, None)
        assert summary_after(evaluated(2, "confirm", 520.0)) == (500.0, None, None)
        assert summary_after(evaluated(3, "final", 460.0)) == (500.0, 460.0, False)  # not the peak decides
        assert feature.state() == {"peak": 500.0}
        feature(Ended(Clock(updates=3), "budget", "finished"), None)
    with RunStore.open(store.paths) as store:  # continued: the score was of an earlier checkpoint
        store.start()
        feature = StatusFile(store, 475.0, "greedy")
        feature.restore({"peak": 500.0})
        assert summary_after(Started(Clock(updates=3), True)) == (500.0, 460.0, False)
        assert summary_after(Updated(Clock(updates=4), ())) == (500.0, None, None)
        assert summary_after(evaluated(4, "final", 480.0)) == (500.0, 480.0, True)
        feature(Ended(Clock(updates=4), "budget", "finished"), None)
