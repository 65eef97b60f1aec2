"""A gymlab command at a terminal of its own."""

import os
import pty
import re
import select
import subprocess
import sys
import termios
import time

from tests.running import environment


class TerminalCommand:
    """A command in its own pseudo-terminal, with everything it wrote there."""

    starter = "import os, sys; os.setsid(); os.close(os.open(os.ttyname(0), os.O_RDWR)); " \
              "os.execv(sys.executable, [sys.executable, '-m', 'gymlab', *sys.argv[1:]])"  # fmt: skip

    def __init__(self, folder, *command, **environ):
        self.master, self.slave = pty.openpty()
        # A setting that differs from the default must be restored too.
        settings = termios.tcgetattr(self.slave)
        settings[3] &= ~termios.ECHOK
        termios.tcsetattr(self.slave, termios.TCSANOW, settings)
        self.before = termios.tcgetattr(self.slave)
        self.written = b""
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.starter, *command], cwd=folder,
            env=environment(TERM="xterm-256color", **environ), stdin=self.slave, stdout=self.slave, stderr=self.slave,
        )  # fmt: skip

    def read_until(self, condition, seconds=90):
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, self.written.decode()
            if select.select([self.master], [], [], 0.05)[0]:
                self.written += os.read(self.master, 65536)

    def end(self):
        """The exit code, once everything is read."""
        self.read_until(lambda: self.process.poll() is not None and not select.select([self.master], [], [], 0.1)[0])
        return self.process.wait()

    def assert_restored(self):
        cursor = re.findall(rb"\x1b\[\?25([hl])", self.written)
        assert cursor, "no live view was drawn"
        assert cursor[-1] == b"h"
        assert re.findall(rb"\x1b\[([0-9;]*)m", self.written)[-1] in (b"", b"0")
        assert termios.tcgetattr(self.slave) == self.before
        assert self.before[3] & termios.ECHO

    def close_terminal(self):
        """As a user closes the window: the kernel sends SIGHUP."""
        for fd in (self.master, self.slave):
            os.close(fd)
        self.master = self.slave = None

    def close(self):
        self.process.kill()
        self.process.wait()
        for fd in (self.master, self.slave):
            if fd is not None:
                os.close(fd)
