"""Child processes: lines both ways, their streams, and how they end."""

import os
import queue
import signal
import sys
from dataclasses import dataclass

import pytest

from gymlab.process.child import Child
from gymlab.process.messages import decode, encode
from tests.running import environment

ECHO = (
    "from gymlab.process.parent_watch import ParentPipe\n"
    "pipe = ParentPipe()\n"
    "print('printed')\n"
    "pipe.listen(lambda line: pipe.send(line.upper()), exit_code=3)\n"
    "import time; time.sleep(60)"
)


def start(code, **streams):
    return Child([sys.executable, "-c", code], environ=environment(), **streams)


def test_lines_go_both_ways_and_prints_go_to_stderr():
    replies = queue.Queue()
    child = start(ECHO, stdin="pipe", stdout="pipe", stderr="file")
    child.listen(replies.put)
    assert child.send("one")
    assert child.send("two")
    assert [replies.get(timeout=30).strip() for _ in range(2)] == ["ONE", "TWO"]
    child.close_stdin()
    assert replies.get(timeout=30) is None
    assert child.wait(30) == 3
    assert child.stderr_tail() == "printed"
    assert not child.send("three")
    assert child.end() == 3


def test_a_child_exits_when_its_parent_is_killed():
    code = (
        "import sys, time\nfrom gymlab.process.child import Child\n"
        f"child = Child([sys.executable, '-c', {ECHO!r}], stdin='pipe', stdout='inherit')\n"
        "print(child.pid, flush=True); time.sleep(60)"
    )
    parent = start(code, stdout="pipe")
    pid = int(parent.stdout.readline())
    child = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    parent.signal(signal.SIGKILL)
    assert parent.end() == -signal.SIGKILL
    if child is not None:
        import select

        assert select.select([child], [], [], 30)[0]


def test_output_larger_than_a_pipe_does_not_block_a_child_nobody_reads():
    code = "import sys; print('x' * 1_000_000); print('y' * 1_000_000, file=sys.stderr)"
    child = start(code, stdout="file", stderr="file")
    assert child.wait(30) == 0
    assert len(child.output_text()) == len(child.stderr_text()) == 1_000_001
    child.end()


def test_a_child_that_does_not_end_in_time_is_killed():
    child = start("import time; time.sleep(60)", stdin="pipe")
    assert child.wait(0.1) is None
    assert child.end(0.1) == -signal.SIGKILL


def test_a_command_that_does_not_exist_raises_os_error():
    with pytest.raises(OSError, match="no-such-command"):
        Child(["no-such-command"], stdout="file")


@dataclass(frozen=True)
class Move:
    name: str
    path: tuple[int, ...] = ()


@dataclass(frozen=True)
class Stop:
    pass


def test_messages_survive_encoding_and_unknown_ones_are_refused():
    for message in (Move("north", (1, 2)), Stop()):
        assert decode(encode(message), Move, Stop) == message
    with pytest.raises(ValueError, match="unknown message 'Stop': expected one of Move"):
        decode(encode(Stop()), Move)
