"""Recorder process, which films a run while it trains: `python -m gymlab.media.recorder_worker`, from `features.video`.

It reads one JSON line per policy and writes one JSON line in reply. It exits when its standard input is closed; after
the line `{"leave": true}` it first makes the films it was asked for, whether or not its parent still lives.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypedDict, Unpack, cast

from gymlab.process.parent_watch import ignore_signals

if TYPE_CHECKING:
    from gymlab.features.video import RecorderReply
    from gymlab.runs.locks import RunLock
    from gymlab.runs.paths import RunPaths
    from gymlab.runs.videos import PendingClip


class RecorderOpening(TypedDict):
    """The first line: the run's folder and `ClipOptions`."""

    run: str
    seed: int
    sampled: bool
    max_steps: int
    fps: int


class RecorderRequest(TypedDict):
    """A line for each policy: the path of its file."""

    policy: str


Requests = queue.SimpleQueue[RecorderRequest | None]  # None: no more


def main() -> None:
    """Serve until the parent exits, at low priority (`nice 10`)."""
    left = threading.Event()
    ignore_signals("SIGINT", "SIGHUP")
    # While the run lives, it decides when to stop.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM) if left.is_set() else None)
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # envs may print: keep that out of the replies
    requests: Requests = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests, left), daemon=True).start()
    opening = cast("RecorderOpening", requests.get())  # None never comes first: the process then exits
    paths, lock = _lock_run(Path(opening["run"]))  # before the priority falls: the run may be short
    with contextlib.suppress(AttributeError, OSError):
        os.nice(10)
    _serve(paths, lock, opening, requests, replies)
    os._exit(0)  # without the teardown of envs and JAX


def _listen(requests: Requests, left: threading.Event) -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "leave" in request:
            left.set()
        else:
            requests.put(request)
    if not left.is_set():
        os._exit(1)  # the parent has exited; the next recorder removes the temporary file of an unfinished film
    requests.put(None)


def _lock_run(folder: Path) -> tuple[RunPaths, RunLock]:
    from gymlab.core.errors import GymlabError
    from gymlab.runs.locks import RunLock
    from gymlab.runs.paths import RunPaths

    paths = RunPaths(folder)
    lock = RunLock(paths.recorder_lock)
    with contextlib.suppress(GymlabError):  # a former recorder still finishes its films, or the disk has no locks
        lock.acquire()
    return paths, lock


def _serve(paths: RunPaths, lock: RunLock, opening: RecorderOpening, requests: Requests, replies: IO[str]) -> None:
    from gymlab.core.errors import GymlabError
    from gymlab.runs.videos import read_pending, scan_pending, sweep

    def reply(**fields: Unpack[RecorderReply]) -> None:
        with contextlib.suppress(OSError):  # the parent may have left
            replies.write(json.dumps(fields) + "\n")
            replies.flush()

    try:
        recorder = _RunRecorder(paths, opening)
        if recorder.note:
            reply(note=recorder.note)
    except Exception as error:  # any error of the env: it is the reply, and the process ends
        for never in scan_pending(paths):
            never.remove()
        reply(over=_error_message(error))
        return
    while (request := requests.get()) is not None:
        pending = read_pending(Path(request["policy"]))
        if not lock.held:
            with contextlib.suppress(GymlabError):
                lock.acquire()
        try:
            assert pending is not None, "its files are gone"
            film = recorder.film(pending)
            recorder.settle(pending, film)
            reply(film=film)
        except Exception as error:  # any error of the env or the policy: it is the reply, and the next request follows
            reply(failed=_error_message(error))
    lock.release()
    sweep(paths)


def _error_message(error: Exception) -> str:
    from gymlab.core.errors import GymlabError

    if isinstance(error, GymlabError):
        return str(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"


class _RunRecorder:
    """Films policies of one run; if the env cannot be filmed, it writes their traces only."""

    def __init__(self, paths: RunPaths, opening: RecorderOpening) -> None:
        from gymlab.core.errors import UserError
        from gymlab.media.camera import why_no_film
        from gymlab.media.policy_player import open_player
        from gymlab.media.record_episode import open_filmed_player
        from gymlab.recipes.resolve import read_run_recipe

        self._paths = paths
        self._opening = opening
        self.note = why_no_film()
        recipe = read_run_recipe(self._paths.recipe)
        if not self.note:
            try:
                self._player = open_filmed_player(recipe)
                return
            except UserError as error:
                self.note = str(error)
        self._player = open_player(recipe)

    def film(self, pending: PendingClip) -> str | None:
        """Film a policy; the film's name, or None if only the trace was written."""
        from gymlab.media.record_episode import RecordOptions, record_clip, record_trace
        from gymlab.runs import files, tensors

        policy = self._player.policy(tensors.decode(files.read_bytes(pending.policy)))
        options = RecordOptions(
            pending.clock,
            pending.kinds,
            self._opening["seed"],
            greedy=not self._opening["sampled"],
            max_steps=self._opening["max_steps"],
            fps=self._opening["fps"],
        )
        if self.note:
            record_trace(self._paths, self._player, policy, options)
            return None
        return record_clip(self._paths, self._player, policy, options).path.name

    def settle(self, pending: PendingClip, film: str | None) -> None:
        """The policy is no longer pending; its film gets kinds that it was given meanwhile."""
        from gymlab.runs.videos import finish_clip, read_pending

        latest = read_pending(pending.policy) or pending
        if film is not None:
            finish_clip(self._paths, film, latest.kinds)
        latest.remove()


if __name__ == "__main__":
    main()
