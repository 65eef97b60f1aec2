"""What the pages tell people to do is done, as they would do it."""

import time

import pytest
from tests.docs.snippets import PAGES, blocks, carry_out

RUNNABLE = [page for page in PAGES if page.is_file() and any(True for _ in blocks(page))]


# What they show has tests of its own.
SLOW = ("first-hour.md", "your-own-environment.md", "sweeps.md", "queue.md", "inspector.md", "eject.md")


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow if page.name in SLOW else [], id=page.name) for page in RUNNABLE],
)
def test_every_command_of_a_page_works(page, tmp_path):
    for block in blocks(page):
        began = time.perf_counter()
        fault = carry_out(block, tmp_path)
        print(f"{page.name}:{block.line} {block.kind} {time.perf_counter() - began:.1f} s")
        assert fault is None, f"{page.name}:{block.line}\n{block.text}\n{fault}"


def test_the_guide_is_among_the_pages():
    assert {"first-hour.md", "your-own-environment.md"} <= {page.name for page in RUNNABLE}
