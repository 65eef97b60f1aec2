"""Published figures: each with a source we know, and none that contradicts what is known elsewhere."""

import json

import pytest

from gymlab.campaigns.reference_scores import published_scores, references
from gymlab.envs.registry import KNOWN_OPTIMA

pytestmark = pytest.mark.fast


def test_every_figure_has_a_source():
    known = references()
    named = {ref.system for refs in known.scores.values() for ref in refs}
    named |= {bound.source for bound in (*known.optima.values(), *known.random.values())}
    assert named == set(known.sources)


def test_optima_are_those_that_recipes_are_checked_against():
    optima = {env: bound.score for env, bound in references().optima.items()}
    assert {env: optima[env] for env in KNOWN_OPTIMA} == KNOWN_OPTIMA


def test_nobody_beats_an_optimum_and_everybody_beats_chance():
    known = references()
    for env, refs in known.scores.items():
        for ref in refs:
            assert env not in known.optima or ref.score <= known.optima[env].score
            assert env not in known.random or ref.score >= known.random[env].score


def test_published_scores_come_best_first():
    found = [ref.score for ref in published_scores("Acrobot-v1")]
    assert found == sorted(found, reverse=True)
    assert {ref.algorithm for ref in published_scores("Acrobot-v1", "ppo")} == {"ppo"}


def test_refs_tells_threshold_optimum_chance_and_sources(cli):
    told = cli("refs", "CartPole-v1")
    assert told.code == 0
    for text in ("registered threshold 475", "optimum 500", "random player 22.5", "RL-Zoo3", "490.04 ± 6.12"):
        assert text in told.out
    found = json.loads(cli("refs", "Taxi-v3", "--json").out)
    assert (found["env"], found["threshold"], found["optimum"]["score"], found["scores"]) == ("Taxi-v4", 8, 7.93, [])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(["CartPole-v9"], "did you mean 'CartPole-v1'"), (["CartPole-v1", "--algorithm", "pp"], "did you mean 'ppo'")],
)
def test_refs_names_what_was_meant(cli, arguments, told):
    done = cli("refs", *arguments)
    assert done.code == 2
    assert told in done.err
