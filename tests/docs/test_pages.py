"""What the pages point at is there."""

import re

import pytest
from tests.docs.snippets import PAGES, ROOT

pytestmark = pytest.mark.fast

TEXTS = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs/reference").glob("*.md"))]
FOUND = {str(page.relative_to(ROOT)): page for page in TEXTS if page.is_file()}
every_page = pytest.mark.parametrize("page", FOUND.values(), ids=list(FOUND))


@every_page
def test_every_link_leads_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = [link for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


@every_page
def test_every_named_test_exists(page):
    missing = []
    for path, name in re.findall(r"`(tests/[\w/.]+)(?:::(\w+))?`", page.read_text(encoding="utf-8")):
        source = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).is_file() else ""
        if not (ROOT / path).exists() or (name and f"\ndef {name}(" not in source):
            missing.append(f"{path}::{name}" if name else path)
    assert missing == []


@every_page
def test_every_named_module_exists(page):
    """A path is relative to the package or to the repository; NAME and * stand for many."""
    paths = re.findall(r"`((?:[a-z_0-9*]+/)*[a-z_0-9*]+\.py)`", page.read_text(encoding="utf-8"))
    roots = (ROOT / "src/gymlab", ROOT)
    assert [path for path in paths if "/" in path and not any(any(root.glob(path)) for root in roots)] == []


@every_page
def test_no_page_shows_where_it_was_written(page):
    assert re.findall(r"(?:/root|/home/\w+|/tmp|/work)/\S*", page.read_text(encoding="utf-8")) == []
