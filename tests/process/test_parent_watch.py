"""Child processes: what they ignore, and what the programs they start inherit of it."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.fast

# Ignores signals as our children do, sends itself one, then starts a program and asks it to end.
CHILD = """
import os, signal, subprocess, sys
from gymlab.process.parent_watch import ignore_signals
ignore_signals("SIGTERM", "SIGINT", "SIGHUP")
os.kill(os.getpid(), signal.SIGTERM)
simulator = subprocess.Popen([sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"],
                             stdout=subprocess.PIPE)
simulator.stdout.readline()
simulator.terminate()
print(simulator.wait(30))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_what_a_child_ignores_still_ends_a_program_that_it_starts() -> None:
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == -signal.SIGTERM
