"""One server and a few tiny runs, made once: the life of a training as a client sees it, with a server killed."""

import os
import signal
from types import SimpleNamespace

import pytest

from tests.campaigns.queue_jobs import processes_of, until
from tests.mcp.client import TINY, Session


@pytest.fixture(scope="package")
def lived(tmp_path_factory):
    """A long training that is started, outlives its killed server, is stopped and resumed; and what was answered."""
    folder = tmp_path_factory.mktemp("mcp")
    told = SimpleNamespace(folder=folder)
    first = Session(folder)
    order = {"recipe": "CartPole-v1:ppo", "overrides": [*TINY, "stop.eval_return=null"], "budget": "50M", "key": "one"}
    told.started = first.call("start_training", **order, tags=["life"], note="from a test")
    told.again = first.call("start_training", **order)
    told.run = told.started.data["runs"][0]["run_id"]
    told.early = first.call("status", run=told.run)
    told.condition = first.call("wait", run=told.run, until="time/progress >= 0", timeout_s=50)
    os.kill(first.pid, signal.SIGKILL)
    first.close()

    session = told.session = Session(folder)
    told.found = session.call("status", run=told.run)
    told.timeout = session.call("wait", run=told.run, timeout_s=0.2)
    told.stopped = session.call("stop", run=told.run)
    told.resumed = session.call("resume", run=told.run, budget=str(told.stopped.data["env_steps"] + 5000))
    told.finished = session.call("wait", run=told.run, timeout_s=50)
    yield told
    session.close()
    until(lambda: not processes_of(folder / "runs"), what="the end of all processes")


@pytest.fixture
def session(lived):
    return lived.session
