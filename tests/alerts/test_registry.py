"""The registry of alert rules, and its page in the documentation."""

import pytest

from gymlab.alerts.explain import explain, page
from gymlab.alerts.registry import GENERAL, OF_ALGORITHM, all_rules, rules_for
from gymlab.cli.explain import find_explanations
from gymlab.metrics.catalogue import check_names
from tests.docs.snippets import ROOT

pytestmark = pytest.mark.fast


def test_an_algorithm_of_ones_own_has_the_rules_of_the_one_it_extends():
    extended = rules_for([name for name in ("my_ppo", "ppo") if name in OF_ALGORITHM])
    assert {rule.id for rule in extended} == {rule.id for rule in (*GENERAL, *OF_ALGORITHM["ppo"])}
    assert {rule.id for rule in rules_for([])} == {rule.id for rule in GENERAL}


def test_every_rule_looks_at_declared_metrics_and_explains_itself():
    for rule, _ in all_rules():
        looked_at = [name.rstrip("*").rstrip("/") + ("/x" if name.endswith("/*") else "") for name in rule.metrics]
        assert check_names(name for name in looked_at if name) == []
        (told,) = explain(rule.id)
        assert told in find_explanations(rule.id)
        assert told.help.endswith(".")


def test_the_page_of_alerts_is_what_the_rules_say():
    assert (ROOT / "docs/reference/alerts.md").read_text(encoding="utf-8") == page()
