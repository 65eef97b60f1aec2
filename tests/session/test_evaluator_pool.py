"""Runs that share evaluation processes get the scores they would have computed themselves."""

import os
import signal

import pytest

from gymlab.features.evaluate_async import EvaluationGoal
from gymlab.recipes.resolve import resolve
from gymlab.session.build import build
from gymlab.session.evaluator.pool import EvaluatorPool
from gymlab.session.evaluator.scorer import policy_template
from gymlab.training.evaluation import Abandoned

TINY = ["n_envs=2", "batch_size=64", "policy.hidden=[8]", "eval.episodes=3", "metrics.statistics=basic"]


@pytest.fixture(scope="module")
def parts():
    return build(resolve("CartPole-v1:ppo", TINY).recipe, 0)


@pytest.fixture
def pool():
    pool = EvaluatorPool(1)
    yield pool
    pool.close()


@pytest.fixture
def evaluators(parts, pool):
    goal = EvaluationGoal(None, "greedy")
    fallback = (policy_template(parts.agent, 2), parts.evaluate)
    return [pool.evaluator(parts.recipe, goal, fallback) for _ in range(2)]


def never():
    return False


def test_two_evaluators_of_one_process_get_the_scores_of_their_own_policies(parts, evaluators):
    policies = [parts.agent.policy(parts.program.start(seed)) for seed in (1, 2)]
    results = [
        evaluator.evaluate(policy, "periodic", 5, never) for evaluator, policy in zip(evaluators, policies, strict=True)
    ]
    assert results == [parts.evaluate(policy, "periodic", 5) for policy in policies]
    assert results[0] != results[1]


def test_a_killed_process_changes_nothing_and_an_abandoned_job_leaves_nothing(parts, pool, evaluators):
    one, other = evaluators
    policy = parts.agent.policy(parts.program.start(3))
    first = one.evaluate(policy, "periodic", 5, never)
    process = pool._idle.get()
    os.kill(process._process.pid, signal.SIGKILL)
    pool._idle.put(process)
    assert other.evaluate(policy, "periodic", 5, never) == first
    with pytest.raises(Abandoned):
        one.evaluate(policy, "periodic", 5, lambda: True)
    assert list(pool._folder.iterdir()) == []
