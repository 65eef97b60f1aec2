"""The faults of `faults.py`, made one by one in a copy of the source: the test named beside each must fail."""

import shutil
import subprocess
import sys

import pytest

from tests.mutants.faults import MUTANTS
from tests.running import ROOT, environment

SOURCE = ROOT / "src" / "gymlab"


@pytest.mark.fast
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_fault_can_still_be_made_and_has_its_test(mutant):
    assert (SOURCE / mutant.file).read_text().count(mutant.line) == 1
    file, name = mutant.test.split("::")
    assert f"def {name}(" in (ROOT / "tests" / file).read_text()


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_fault_is_noticed(mutant, tmp_path):
    shutil.copytree(SOURCE, tmp_path / "gymlab", ignore=shutil.ignore_patterns("__pycache__"))
    file = tmp_path / "gymlab" / mutant.file
    file.write_text(file.read_text().replace(mutant.line, mutant.fault))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(ROOT / "tests" / mutant.test)],
        check=False, cwd=ROOT, env=environment(PYTHONPATH=f"{tmp_path}:{ROOT}"), capture_output=True, text=True,
        timeout=600,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]  # 1: tests ran and failed
    assert "failed" in done.stdout.splitlines()[-1]
