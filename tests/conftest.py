"""One compilation cache for all tests and the processes they start; runs go to temporary folders."""

import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parent.parent
os.environ.setdefault("GYMLAB_CACHE", str(ROOT / ".cache"))
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("GYMLAB_VIDEO", "off")  # a second process for each run is too slow for most tests
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Tests compile far more than they compute: a third of the suite's time goes when LLVM does not optimise.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
# What nohup and a shell's `&` have ignored stays ignored in every child, and gymlab rightly leaves it so.
for _name, _handler in (("SIGHUP", signal.SIG_DFL), ("SIGINT", signal.default_int_handler)):
    if hasattr(signal, _name) and signal.getsignal(getattr(signal, _name)) is signal.SIG_IGN:
        signal.signal(getattr(signal, _name), _handler)


@pytest.fixture(scope="session", autouse=True)
def _jax():
    from gymlab.session.jax_setup import set_up_jax

    set_up_jax(Path(os.environ["GYMLAB_CACHE"]))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty current folder with runs of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GYMLAB_RUNS", str(tmp_path / "runs"))
    return tmp_path


@pytest.fixture
def clean_folder(tmp_path, monkeypatch):
    """An empty current folder, with no settings of the user's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for variable in ("GYMLAB_RUNS", "GYMLAB_CACHE", "GYMLAB_CONFIG"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


@pytest.fixture
def cli(folder, monkeypatch, capsys):
    """Run a gymlab command in this process; gives its exit code and what it printed."""

    from gymlab.cli.main import main

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["gymlab", *map(str, arguments)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return SimpleNamespace(code=code, out=out, err=err)

    run.folder = folder
    return run


# `make test` fails where more is skipped than tests/expected_skips.txt lists: a missing package must not go unnoticed.
_skipped: set[str] = set()


def pytest_runtest_logreport(report):
    if report.skipped and not hasattr(report, "wasxfail"):
        _skipped.add(report.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    if not os.environ.get("GYMLAB_CHECK_SKIPS") or hasattr(session.config, "workerinput"):
        return
    lines = (ROOT / "tests/expected_skips.txt").read_text().splitlines()
    expected = {line.partition("#")[0].strip() for line in lines}
    if surplus := sorted(_skipped - expected):
        print("\nskipped, but not listed in tests/expected_skips.txt:", *surplus, sep="\n  ")
        session.exitstatus = session.exitstatus or 1
