"""What the pages on charts and alerts name exists, and their tables and pictures are those that were made."""

import json
import re

import pytest
from tests.docs.snippets import ROOT

from gymlab.alerts.registry import names
from gymlab.diagnosis.unusual_settings import ranges_table
from gymlab.metrics.catalogue import METRICS, declared

pytestmark = pytest.mark.fast

PAGES = [ROOT / "docs/reading-charts.md", ROOT / "docs/alerts.md"]
OURS = {"not-solved", "budget-short", "numerical-fault"}
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def named(page):
    return set(re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8")))


@every_page
def test_every_metric_that_a_page_names_is_declared(page):
    spaces = {metric.namespace for metric in METRICS if "/" in metric.name}
    metrics = {name for name in named(page) if name.partition("/")[0] in spaces and "/" in name}
    assert metrics or page.name == "alerts.md"
    assert [name for name in metrics if declared(name) is None] == []


@every_page
def test_every_alert_that_a_page_names_exists(page):
    words = {name for name in named(page) if re.fullmatch(r"[a-z]+(-[a-z]+)+", name)}
    known = {*names(), *OURS}
    assert sorted(name for name in words if name not in known and not name.startswith("unusual-")) == []


@every_page
def test_every_picture_of_a_page_is_small_and_was_made_by_the_script(page):
    pictures = re.findall(r"!\[[^\]]+\]\((\S+)\)", page.read_text(encoding="utf-8"))
    script = (ROOT / "docs/make_figures.py").read_text(encoding="utf-8")
    for picture in pictures:
        path = page.parent / picture
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size < 60_000
        assert f'"{path.stem}"' in script


def test_the_ranges_on_the_page_are_those_of_the_code():
    assert "\n".join(ranges_table()) in PAGES[1].read_text(encoding="utf-8")


def test_the_table_of_cured_recipes_is_the_one_that_was_measured():
    known = json.loads((ROOT / "benchmarks/results/faulty_recipes.json").read_text())
    page = PAGES[1].read_text(encoding="utf-8")
    cured = [story for story in known["stories"] if story["rounds"] and story["rounds"][-1]["solved"]]
    assert f"{len(cured)} of {len(known['stories'])} solved" in page
    assert len(known["stories"]) >= 8
    assert len(cured) >= 5
    assert not any(story["before"]["solved"] for story in known["stories"])
    assert [story["recipe"] for story in known["stories"] if f"| `{story['recipe']}` |" not in page] == []
