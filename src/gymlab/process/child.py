"""Child process: start a module or a command, exchange lines or bytes with it, and end it.

Always a new interpreter, never a fork. The child's side is `process.parent_watch`, typed lines are `process.messages`.
This is the one place of the package that calls `subprocess.Popen`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, Self

from gymlab.process.environ import child_environ

# Where a stream goes. `file` is a temporary file, read by `output_text` or `stderr_text`: unlike an unread
# pipe, it never blocks the child. `stdout` (of stderr only) merges the two. An int is a file descriptor.
Stream = Literal["pipe", "null", "inherit", "file", "stdout"] | int
# `ours`: signals of our terminal and process group reach the child too. `own`: only signals sent to it.
# `detached`: the same, and on Windows without our console; for a child that outlives us (see `release`).
Session = Literal["ours", "own", "detached"]


def module_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of ours with this interpreter."""
    return [sys.executable, "-m", module, *arguments]


def gymlab_command(*arguments: str) -> list[str]:
    """The command that runs gymlab with this interpreter.

    -P: what lies in the current folder must not shadow what gymlab imports; it finds user modules by itself.
    """
    return [sys.executable, "-P", "-m", "gymlab", *arguments]


class Child:
    """A started process. Starting raises OSError; none of the other methods does when the process has ended."""

    def __init__(  # noqa: PLR0913 - as Popen
        self,
        command: Sequence[str],
        *,
        stdin: Literal["pipe", "null"] = "null",
        stdout: Stream = "inherit",
        stderr: Stream = "inherit",
        environ: Mapping[str, str] | None = None,
        folder: str | Path | None = None,
        session: Session = "ours",
        pass_fds: Sequence[int] = (),
    ) -> None:
        self._files: dict[str, IO[bytes]] = {}
        self._reader: threading.Thread | None = None
        options: dict[str, Any] = {"start_new_session": session != "ours"}
        if session == "detached" and sys.platform == "win32":
            options = {"creationflags": subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP}
        try:
            self._process = subprocess.Popen(
                command,
                stdin=self._stream("stdin", stdin),
                stdout=self._stream("stdout", stdout),
                stderr=self._stream("stderr", stderr),
                env=environ,
                cwd=folder,
                pass_fds=pass_fds,
                **options,
            )
        except BaseException:
            self._close_files()
            raise

    def _stream(self, name: str, where: Stream) -> int | IO[bytes] | None:
        if where == "file":
            self._files[name] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
            return self._files[name]
        if isinstance(where, int):
            return where
        return {"pipe": subprocess.PIPE, "null": subprocess.DEVNULL, "stdout": subprocess.STDOUT, "inherit": None}[
            where
        ]

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code as of the last `poll`, `wait` or `end`: None while it ran; -N for signal N."""
        return self._process.returncode

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float | None = None) -> int | None:
        """The exit code; None where it still runs after so many seconds."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def wait_peak_memory(self) -> float:
        """Wait for its end; its peak resident memory in MB, NaN where the system does not report it."""
        if not hasattr(os, "wait4"):
            self._process.wait()
            return float("nan")
        _, status, usage = os.wait4(self.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        return usage.ru_maxrss / (1024 * 1024 if sys.platform == "darwin" else 1024)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    def release(self) -> None:
        """Let it outlive us: it is not waited for, and Popen does not warn that it still runs."""
        self._process.returncode = 0

    def end(self, seconds: float = 0.0) -> int:
        """Close its stdin, kill it if it has not ended by itself in so many seconds, and close all files."""
        if seconds > 0:
            self.close_stdin()
            self.wait(seconds)
        self._process.kill()
        code = self._process.wait()
        self.close_stdin()
        if self._process.stdout is not None and self._reader is None:  # else the thread closes it
            self._process.stdout.close()
        if self._process.stderr is not None:
            self._process.stderr.close()
        self._close_files()
        return code

    def _close_files(self) -> None:
        for file in self._files.values():
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def send(self, line: str) -> bool:
        """Write a line to its stdin; False where it has ended or its stdin is closed."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError):
            return False
        return True

    def close_stdin(self) -> None:
        """Close its stdin: children that read lines exit after the last."""
        if self._process.stdin is not None:
            with suppress(OSError, ValueError):
                self._process.stdin.close()

    @property
    def stdout(self) -> IO[bytes]:
        """To read from (stdout="pipe"), where `listen` does not."""
        assert self._process.stdout is not None
        return self._process.stdout

    def lines(self) -> Iterator[str]:
        """Every line of its stdout as it comes, until its end."""
        for line in self.stdout:
            yield line.decode(errors="replace")

    def listen(self, on_line: Callable[[str | None], None]) -> None:
        """Have a thread call `on_line` with every line of its stdout, and with None at its end."""

        def read() -> None:
            try:
                with self.stdout:
                    for line in self.lines():
                        on_line(line)
            finally:
                on_line(None)

        self._reader = threading.Thread(target=read, daemon=True)
        self._reader.start()

    def output_text(self) -> str:
        """All of its stdout so far (stdout="file"); "" after `end`."""
        return self._text("stdout")

    def stderr_text(self) -> str:
        """All of its stderr so far (stderr="file"); "" after `end`."""
        return self._text("stderr")

    def stderr_tail(self) -> str:
        """The last line of its stderr (stderr="file"), for a message."""
        lines = self.stderr_text().strip().splitlines()
        return lines[-1][:300] if lines else "no message"

    def _text(self, name: str) -> str:
        file = self._files[name]
        if file.closed:
            return ""
        file.seek(0)
        return file.read().decode(errors="replace")


def start_worker(
    module: str,
    on_line: Callable[[str | None], None] | None = None,
    *,
    arguments: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    stderr: Stream = "file",
    session: Session = "ours",
) -> Child:
    """Start a module of ours that reads lines from stdin and writes lines to stdout.

    Its lines go to `on_line`, from a thread; without one they are read by `lines` or from `stdout`.
    """
    child = Child(
        module_command(module, *arguments),
        stdin="pipe",
        stdout="pipe",
        stderr=stderr,
        environ=child_environ(**(environ or {})),
        session=session,
    )
    if on_line is not None:
        child.listen(on_line)
    return child
