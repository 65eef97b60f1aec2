"""docs/coming-from-sb3.md: its tables are the code's, and its snippets run."""

import re
from pathlib import Path

import pytest

from gymlab import sb3
from gymlab.sb3 import arguments

pytestmark = pytest.mark.fast

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from-sb3.md").read_text(encoding="utf-8")
TABLES = ("PPO", "A2C", "REINFORCE", "POLICY_KWARGS", "LEARN", "PREDICT", "SAVE", "LOAD")


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_the_page_is_the_one_the_code_uses(name):
    table = arguments.markdown(getattr(arguments, name))
    assert table in PAGE, f"docs/coming-from-sb3.md: put this in place of the old table\n{table}"


def test_the_page_names_everything_that_can_be_imported():
    missing = [name for name in sb3.__all__ if f"`{name}`" not in PAGE and name != "TrainedPolicy"]
    assert not missing


@pytest.mark.slow
def test_the_snippets_run_one_after_the_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for snippet in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(snippet, "docs/coming-from-sb3.md", "exec"), {"__name__": "__main__"})
    assert (tmp_path / "runs" / "first-steps" / "manifest.json").is_file()
