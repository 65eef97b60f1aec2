"""The compiled evaluation counts the episodes that the one on Gymnasium counts, whichever way it is cut into calls."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gymlab.core.jax_keys import named_key, named_key_words, wrap_key
from gymlab.core.types import Decision
from gymlab.envs.ports.registry import find_port
from gymlab.training import evaluation_compiled
from gymlab.training.evaluation import Abandoned
from gymlab.training.evaluation_compiled import CompiledEvaluator

pytestmark = pytest.mark.fast

UP, RIGHT = 0, 1


def act(policy, obs, carry, key, greedy):
    """Greedy goes up (-1 a step, for ever), sampled goes right (into the cliff: -100 a step, back to the start)."""
    action = jnp.where(greedy, UP, RIGHT)
    return Decision(action, jnp.zeros(action.shape), carry, {})


def pushed(policy, obs, carry, key, greedy):
    """Greedy follows the pole, sampled pushes at random."""
    random = jax.random.bernoulli(key, shape=greedy.shape)
    action = jnp.where(greedy, obs[:, 2] + obs[:, 3] > 0, random).astype(jnp.int32)
    return Decision(action, jnp.zeros(action.shape), carry, {})


def evaluator(env, act):
    return CompiledEvaluator(find_port(env, {}, 40), (), act, lambda n: ())


@pytest.mark.parametrize("max_envs", [5, 2])
def test_both_ways_are_counted_with_the_returns_worked_out_by_hand(max_envs):
    """40 steps of -1 and, since every other step right of the start is the cliff's first cell, 40 of -100."""
    found = evaluator("CliffWalking-v1", act).evaluate({}, episodes=5, seed=0, max_envs=max_envs)
    assert (found.greedy.mean, found.greedy.n, found.greedy.length, found.greedy.truncated) == (-40, 5, 40, 5)
    assert (found.sampled.mean, found.sampled.n, found.sampled.reward_per_step) == (-4000, 5, -100)
    assert found.source == "compiled"


def test_the_seed_and_nothing_else_decides_the_episodes(monkeypatch):
    """Neither how steps are cut into calls nor which ways are asked for."""
    judge = evaluator("CartPole-v1", pushed)
    whole = judge.evaluate({}, episodes=6, seed=3, max_envs=4)
    assert len(set(whole.sampled.returns)) > 1
    assert judge.evaluate({}, episodes=6, seed=3, max_envs=4) == whole
    assert judge.evaluate({}, episodes=6, seed=4, max_envs=4).sampled.returns != whole.sampled.returns
    alone = judge.evaluate({}, episodes=6, seed=3, max_envs=4, ways=["sampled"])
    assert (alone.sampled, alone.greedy.n) == (whole.sampled, 0)
    monkeypatch.setattr(evaluation_compiled, "CALL_STEPS", 7)
    assert evaluator("CartPole-v1", pushed).evaluate({}, episodes=6, seed=3, max_envs=4) == whole


def test_it_can_be_abandoned_between_calls(monkeypatch):
    monkeypatch.setattr(evaluation_compiled, "CALL_STEPS", 7)
    asked = []
    with pytest.raises(Abandoned):
        evaluator("CliffWalking-v1", act).evaluate(
            {}, episodes=2, seed=0, max_envs=2, abandon=lambda: len(asked) == 2 or asked.append(1)
        )
    assert asked == [1, 1]


def test_keys_made_in_one_go_are_those_made_one_by_one():
    for seed in (0, 7, 2**32 - 1):
        words = named_key_words(seed, "evaluation", 254, 4)
        for i, word in enumerate(words):
            ours, one = (jax.random.key_data(key) for key in (wrap_key(word), named_key(seed, "evaluation", 254 + i)))
            np.testing.assert_array_equal(ours, one)
