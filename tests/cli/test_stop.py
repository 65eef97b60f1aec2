"""`gymlab stop`: signals and requests reach the process that owns the run."""

import subprocess
import sys
from dataclasses import replace

from gymlab.runs import platform
from gymlab.runs.locks import Owner
from gymlab.runs.requests import request_stop, send_signal, stop_requested
from tests.cli.stored_runs import make_run


def test_a_process_is_signalled_only_when_it_is_the_one_that_is_meant():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        owner = Owner(process.pid, platform.host_name(), platform.process_start(process.pid))
        assert not send_signal(replace(owner, start="1"), 15)  # a later process with the same pid
        assert not send_signal(replace(owner, start=None), 15)
        assert not send_signal(replace(owner, host="elsewhere"), 15)
        assert not send_signal(Owner(0, owner.host, owner.start), 15)
        assert process.poll() is None
        assert send_signal(owner, 15)
        assert process.wait(10) == -15
        assert not send_signal(owner, 15)
    finally:
        process.kill()
        process.wait()


def test_a_request_reaches_the_owner_it_is_meant_for_and_no_later_one(folder):
    paths = make_run(folder / "runs", "one", "finished")
    me = Owner.me()
    assert not stop_requested(paths, me)
    assert request_stop(paths, replace(me, host="elsewhere")) == "file"
    assert stop_requested(paths, replace(me, host="elsewhere"))
    assert not stop_requested(paths, me)
    assert not (paths.root / "stop.json").exists()
