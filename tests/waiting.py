"""Waiting for an event instead of a moment: every wait in the tests ends when its condition holds.

The limits only end a test that hangs, so they are generous: a busy machine must not fail one.
"""

import time
from pathlib import Path

LIMIT_SECONDS = 180.0


def wait_until(condition, what="the condition", *, process=None, seconds=LIMIT_SECONDS, pause=0.02):
    """What the condition returns once it is true; a `process` that ends first fails the test with its output."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if process is not None and process.poll() is not None and not condition():
            raise AssertionError(f"the process ended before {what}: {process.communicate()[0]}")
        assert time.monotonic() < deadline, f"waited {seconds:g} s for {what}"
        time.sleep(pause)
    return found


def process_gone(pid):
    """Ended, or a zombie that nobody has waited for yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_until_gone(pids):
    wait_until(lambda: all(map(process_gone, pids)), f"the end of processes {list(pids)}", pause=0.05)
