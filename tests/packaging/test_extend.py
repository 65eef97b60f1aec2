"""The public API: `gymlab.extend`, and types that reach the users' own type checkers."""

import subprocess
import sys
import tomllib
from importlib import resources

import pytest

import gymlab
import gymlab.extend
from tests.running import ROOT

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("name", gymlab.extend.__all__)
def test_every_name_is_found_where_it_is_defined(name):
    found = getattr(gymlab.extend, name)
    if name in ("Array", "Tree"):  # aliases
        return
    assert found.__name__ == name
    assert found.__module__.startswith("gymlab.")


def test_dir_lists_the_public_names_alone():
    assert dir(gymlab.extend) == sorted(gymlab.extend.__all__)


def test_another_name_is_refused_as_by_any_module():
    with pytest.raises(AttributeError, match=r"module 'gymlab.extend' has no attribute 'Recipe'"):
        _ = gymlab.extend.Recipe


def test_importing_it_imports_nothing_heavy():
    code = "import sys, gymlab.extend; print([name for name in ('jax', 'numpy', 'gymnasium') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_page_on_extending_names_the_seams():
    page = (ROOT / "docs/how-it-works.md").read_text()
    for name in ("Algorithm", "Encoder", "Transform", "Feature", "PPOAlgorithm", "Control", "VecStep", "Rollout"):
        assert f"`{name}`" in page
    assert "`gymlab.extend`" in page


def test_types_ship():
    assert resources.files(gymlab).joinpath("py.typed").is_file()
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel == {"packages": ["src/gymlab"]}  # the whole package, data included
