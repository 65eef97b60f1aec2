"""Numbers that are moved while training: heeded at the next update, and nothing is compiled for it."""

import jax
import numpy as np
import pytest

from gymlab.core.errors import UserError
from gymlab.web.playground.interactive_trainer import PlaygroundTrainer


@pytest.fixture(scope="module")
def trainer():
    trainer = PlaygroundTrainer("Bandit")
    trainer.advance()
    return trainer


def weights(trainer):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(trainer.policy.weights)]


def test_a_learning_rate_of_0_freezes_the_policy_and_another_one_thaws_it(trainer):
    before = weights(trainer)
    trainer.set("learning_rate", 0.0)
    told = trainer.advance()
    assert told["moved"] == 0.0
    assert all(np.array_equal(a, b) for a, b in zip(before, weights(trainer), strict=True))
    assert told["updates"] > 1
    trainer.set("learning_rate", 1e-2)
    assert trainer.advance()["moved"] > 0.0
    assert not all(np.array_equal(a, b) for a, b in zip(before, weights(trainer), strict=True))


def test_moving_every_number_compiles_nothing(trainer):
    compiled = trainer.advance()["compilations"]
    assert compiled > 0
    for name, value in trainer.values.items():
        trainer.set(name, 0.5 * value + 1e-3)
        told = trainer.advance()
        assert told["compilations"] == compiled
        assert told["values"][name] == pytest.approx(0.5 * value + 1e-3)


def test_a_higher_learning_rate_moves_the_policy_further(trainer):
    moved = []
    for rate in (1e-5, 1e-2):
        trainer.set("learning_rate", rate)
        moved.append(trainer.advance()["moved"])
    assert moved[0] < moved[1]


def test_wrong_names_and_numbers_are_refused(trainer):
    with pytest.raises(UserError, match="learning_rate"):
        trainer.set("learning_rat", 1.0)
    for bad in (-1.0, float("nan"), float("inf")):
        with pytest.raises(UserError, match="at least 0"):
            trainer.set("gamma", bad)
    with pytest.raises(UserError, match="CartPole"):
        PlaygroundTrainer("CartPol")
