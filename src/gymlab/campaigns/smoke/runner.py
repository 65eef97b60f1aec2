"""Runs drills, each in a process of its own, some at a time, and tells what becomes of them."""

from __future__ import annotations

import json
import queue
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from gymlab.campaigns.smoke.check_recipe import STAGES
from gymlab.campaigns.smoke.choose import Candidate
from gymlab.process.environ import child_environ


@dataclass
class Verdict:
    """How far a recipe has come; `status` says when it is over."""

    recipe: str
    family: str
    status: Literal["waiting", "running", "ok", "failed", "skipped"] = "waiting"
    stages: dict[str, str] = field(default_factory=dict)  # passed ones, and how
    seconds: float = 0.0
    reason: str = ""  # why it failed or was skipped
    reproduce: str = ""  # a command that shows it

    @property
    def over(self) -> bool:
        return self.status not in ("waiting", "running")

    @property
    def stage(self) -> str:
        """The first one that was not passed."""
        return next((stage for stage in STAGES if stage not in self.stages), "")


class Crew:
    """Drills under way. Leaving ends those that still run."""

    def __init__(self, candidates: Sequence[Candidate], jobs: int, timeout: float) -> None:
        self.verdicts = [Verdict(found.reference, found.family) for found in candidates]
        self._timeout = timeout
        self._pool = ThreadPoolExecutor(jobs)
        self._over: queue.Queue[Verdict] = queue.Queue()
        self._running: set[subprocess.Popen[str]] = set()
        self._leaving = threading.Event()

    def follow(self) -> Iterator[Verdict | None]:
        """Every verdict once it is over; None now and then, while those under way may have come further."""
        for verdict in self.verdicts:
            self._pool.submit(self._run, verdict)
        left = len(self.verdicts)
        while left:
            try:
                verdict = self._over.get(timeout=0.2)
            except queue.Empty:
                yield None
            else:
                left -= 1
                yield verdict

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.set()
        for process in list(self._running):
            process.kill()
        self._pool.shutdown(cancel_futures=True)

    def _run(self, verdict: Verdict) -> None:
        began = time.perf_counter()
        verdict.status = "running"
        try:
            self._drill(verdict)
        except Exception as error:  # a thread's fault would otherwise never be heard of
            _fail(verdict, f"{type(error).__name__}: {error}")
        verdict.seconds = time.perf_counter() - began
        self._over.put(verdict)

    def _drill(self, verdict: Verdict) -> None:
        with tempfile.TemporaryDirectory(prefix="gymlab-smoke-") as folder, tempfile.TemporaryFile() as words:
            process = subprocess.Popen(
                [sys.executable, "-m", "gymlab.campaigns.smoke.check_recipe", verdict.recipe, folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=words,
                env=child_environ(),
                text=True,
            )
            self._running.add(process)
            if self._leaving.is_set():
                process.kill()
            late = threading.Timer(self._timeout, process.kill)
            late.start()
            began = time.perf_counter()
            try:
                self._listen(process, verdict)
            finally:
                late.cancel()
                process.kill()
                process.communicate()
                self._running.discard(process)
            if not verdict.over:
                hung = time.perf_counter() - began >= self._timeout
                _fail(verdict, f"not done after {self._timeout:g} s" if hung else _last_words(process, words))

    def _listen(self, process: subprocess.Popen[str], verdict: Verdict) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            told: dict[str, Any] = json.loads(line)
            if "stage" in told:
                verdict.stages[told["stage"]] = told["how"]
            elif "skipped" in told:
                verdict.status = "skipped"
                verdict.reason = told["skipped"]
            elif "failed" in told:
                _fail(verdict, told["failed"])
            else:
                verdict.status = "ok"
        process.wait()


def _fail(verdict: Verdict, reason: str) -> None:
    verdict.reason = reason
    verdict.status = "failed"
    verdict.reproduce = f"gymlab smoke {shlex.quote(verdict.recipe)}"


def _last_words(process: subprocess.Popen[str], words: Any) -> str:
    code = process.returncode
    how = f"exit code {code}"
    if code < 0:
        with suppress(ValueError):
            how = signal.Signals(-code).name
    words.seek(0)
    lines = words.read().decode(errors="replace").strip().splitlines()
    return f"its process died ({how}){f': {lines[-1][:300]}' if lines else ''}"
