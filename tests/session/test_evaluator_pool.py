"""Runs that share evaluation processes are told what they would have found themselves."""

import os
import signal

import pytest

from gymlab.features.evaluate_async import Goal
from gymlab.recipes.resolve import resolve
from gymlab.session.build import build
from gymlab.session.evaluator.parts import blank_policy
from gymlab.session.evaluator.shared import Examiners
from gymlab.training.evaluation import Abandoned

TINY = ["n_envs=2", "batch_size=64", "policy.hidden=[8]", "eval.episodes=3", "metrics.statistics=basic"]


@pytest.fixture(scope="module")
def parts():
    return build(resolve("CartPole-v1:ppo", TINY).recipe, 0)


@pytest.fixture
def desks(parts):
    examiners = Examiners(1)
    here = (blank_policy(parts.agent, 2), parts.evaluate)
    yield [examiners.desk(parts.recipe, Goal(None, "greedy"), here) for _ in range(2)], examiners
    examiners.close()


def never():
    return False


def test_two_desks_of_one_process_get_the_scores_of_their_own_policies(parts, desks):
    policies = [parts.agent.policy(parts.program.start(seed)) for seed in (1, 2)]
    told = [desk.evaluate(policy, "periodic", 5, never) for desk, policy in zip(desks[0], policies, strict=True)]
    assert told == [parts.evaluate(policy, "periodic", 5) for policy in policies]
    assert told[0] != told[1]


def test_a_killed_process_changes_nothing_and_who_gives_up_is_let_go(parts, desks):
    (desk, other), examiners = desks
    policy = parts.agent.policy(parts.program.start(3))
    first = desk.evaluate(policy, "periodic", 5, never)
    examiner = examiners._idle.get()
    os.kill(examiner._process.pid, signal.SIGKILL)
    examiners._idle.put(examiner)
    assert other.evaluate(policy, "periodic", 5, never) == first
    with pytest.raises(Abandoned):
        desk.evaluate(policy, "periodic", 5, lambda: True)
    assert list(examiners._folder.iterdir()) == []
