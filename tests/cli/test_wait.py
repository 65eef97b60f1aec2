"""`gymlab wait`."""

from tests.cli.stored_runs import make_run


def test_wait_tells_how_runs_ended(cli):
    codes = {"finished": 0, "failed": 1, "crashed": 1, "stopped": 143}
    for status, code in codes.items():
        make_run(cli.folder / "runs", status, status)
        assert cli("wait", status).code == code
    assert cli("wait", "finished", "stopped").code == 143
    assert cli("wait", "finished", "stopped", "crashed", "--json").code == 1
    assert cli("wait").code == 143  # the newest
    assert "has written no log" in cli("logs", "finished").err
