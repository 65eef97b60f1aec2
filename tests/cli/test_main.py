"""How the process of a command ends."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

SAYS = "class Held:\n    def __del__(self): print('freed')\nheld = Held()\nprint('said', end=' ')\n"


def ended(before: str, code: str = "3") -> tuple[int, str, str]:
    script = (
        f"import atexit, sys, threading, time\nfrom gymlab.cli.main import exit_process\n{before}\nexit_process({code})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(("code", "found"), [("3", 3), ("0", 0), ("None", 0)])
def test_what_was_said_and_asked_for_is_done_and_nothing_is_freed(code: str, found: int) -> None:
    assert ended(f"atexit.register(print, 'tidied')\n{SAYS}", code) == (found, "said tidied\n", "")


def test_the_interpreter_ends_it_where_somebody_still_works_or_watches() -> None:
    works = "threading.Thread(target=lambda: (time.sleep(0.3), print('done', end=' '))).start()"
    assert ended(f"{SAYS}{works}") == (3, "said done freed\n", "")
    watches = "import os; os._exit = lambda code: print('at once')\nsys.setprofile(lambda *_: None)"
    code, said, _ = ended(f"{SAYS}{watches}")
    assert (code, said.startswith("said "), "at once" in said) == (3, True, False)
    assert ended(SAYS, "'why'") == (1, "said freed\n", "why\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_what_cannot_be_said_is_no_success_and_nobody_listening_is_no_failure() -> None:
    script = "from gymlab.cli.main import exit_process; import sys; print('said'); exit_process(0)"
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    for command, code in (("exec {} -c {} > /dev/full", 120), ("exec {} -c {} >&-", 0)):
        line = command.format(shlex.quote(sys.executable), shlex.quote(script))
        done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=60, check=False, env=buffered)
        assert done.returncode == code, done.stderr
        assert ("No space left" in done.stderr) == bool(code)
