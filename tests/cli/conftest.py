"""The command line called in this process: the same code as the program, without its start-up."""

import sys
from types import SimpleNamespace

import pytest

from gymlab.cli.main import main


@pytest.fixture
def cli(folder, monkeypatch, capsys):
    """Run a gymlab command; gives its exit code and what it printed."""

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
