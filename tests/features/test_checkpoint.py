"""Checkpoint: which policy is the best so far, and which evaluation decides."""

from pathlib import Path

import pytest

from gymlab.core.clock import Clock
from gymlab.core.period import Period
from gymlab.features.checkpoint import Checkpoint
from gymlab.training.evaluation import EvalScore, Evaluation
from gymlab.training.events import CheckpointRequested, Evaluated, Promoted

pytestmark = pytest.mark.fast


class Requests:
    def __init__(self):
        self.seen = []

    def emit(self, event):
        assert isinstance(event, CheckpointRequested | Promoted)
        self.seen.append(event.clock.updates)


def made():
    return Checkpoint(Period(10, "vec_steps", 1), "greedy", lambda clock: Path(str(clock.updates)), lambda *_: None)


def best(checkpoint, kind, update, mean):
    """Whether the policy evaluated becomes or stays the best."""
    score = EvalScore(mean, 0.0, 20, 1.0, 0, 1.0)
    requests = Requests()
    checkpoint(Evaluated(Clock(updates=update), kind, Evaluation(score, score, 0)), requests)
    return requests.seen == [update]


def test_a_confirmation_refutes_the_best():
    checkpoint = made()
    assert best(checkpoint, "periodic", 10, 255.0)
    assert best(checkpoint, "confirm", 10, 225.0)
    assert not best(checkpoint, "periodic", 20, 220.0)
    assert best(checkpoint, "periodic", 30, 245.0)
    resumed = made()
    resumed.restore(checkpoint.state())
    assert best(resumed, "confirm", 30, 238.0)
    assert not best(resumed, "periodic", 40, 237.0)
    assert best(resumed, "final", 50, 238.0)
