"""Every supported Python finds a file of tested versions, which agree with pyproject.toml."""

import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.running import ROOT

sys.path.insert(0, str(ROOT / "tools"))

from constraints import choose, version_of

pytestmark = pytest.mark.fast

FILES = sorted(ROOT.glob("constraints-*.txt"))


@pytest.mark.parametrize(
    ("python", "expected"),
    [((3, 9), "3.11"), ((3, 11), "3.11"), ((3, 12), "3.11"), ((3, 13), "3.13"), ((4, 0), "3.13")],
)
def test_the_files_own_version_else_the_next_older_else_the_oldest(python, expected):
    assert choose([Path("constraints-3.13.txt"), Path("constraints-3.11.txt")], python).name == (
        f"constraints-{expected}.txt"
    )


def test_the_oldest_and_the_newest_supported_python_have_files():
    assert [version_of(file) for file in FILES] == [(3, 11), (3, 13)]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_is_pinned_is_what_the_package_allows(file):
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    pins = {canonicalize_name(name): version for name, version in (line.split("==") for line in lines)}
    allowed = [
        Requirement(text) for text in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    ]
    assert allowed
    for requirement in allowed:
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), requirement
