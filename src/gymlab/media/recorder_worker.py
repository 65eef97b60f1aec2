"""Recorder process, which films a run while it trains: `python -m gymlab.media.recorder_worker`, from `features.video`.

It reads one JSON line per policy, writes one JSON line in reply, and exits when its standard input is closed.
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
from typing import IO, Any


def main() -> None:
    """Serve until the parent exits, at low priority (`nice 10`)."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # envs may print: keep that out of the replies
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    opening = requests.get()
    with contextlib.suppress(AttributeError, OSError):
        os.nice(10)
    with contextlib.suppress(BrokenPipeError):
        _serve(opening, requests, answers)


def _listen(requests: queue.SimpleQueue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        requests.put(json.loads(line))
    os._exit(1)  # the parent has exited; the next recorder removes the temporary file of an unfinished film


def _serve(opening: dict[str, Any], requests: queue.SimpleQueue[dict[str, Any]], answers: IO[str]) -> None:
    def answer(**fields: Any) -> None:
        answers.write(json.dumps(fields) + "\n")
        answers.flush()

    try:
        recorder = _RunRecorder(opening)
        if recorder.note:
            answer(note=recorder.note)
    except Exception as error:  # any error of the env: it is the answer, and the process ends
        answer(over=_error_message(error))
        return
    while True:
        task = requests.get()
        try:
            answer(film=recorder.film(task))
        except Exception as error:  # any error of the env or the policy: it is the answer, and the next task follows
            answer(failed=_error_message(error))


def _error_message(error: Exception) -> str:
    from gymlab.core.errors import GymlabError

    if isinstance(error, GymlabError):
        return str(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"


class _RunRecorder:
    """Films policies of one run; if the env cannot be filmed, it writes their traces only."""

    def __init__(self, opening: dict[str, Any]) -> None:
        from gymlab.core.errors import UserError
        from gymlab.media.camera import why_no_film
        from gymlab.media.policy_player import open_player
        from gymlab.media.record_episode import open_filmed_player
        from gymlab.recipes.resolve import read_run_recipe
        from gymlab.runs.paths import RunPaths

        self._paths = RunPaths(Path(opening["run"]))
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

    def film(self, task: dict[str, Any]) -> str | None:
        """Film a policy; the film's name, or None if only the trace was written."""
        from gymlab.core.clock import Clock
        from gymlab.media.record_episode import RecordOptions, record_clip, record_trace
        from gymlab.runs import files, tensors

        policy = self._player.policy(tensors.decode(files.read_bytes(Path(task["policy"]))))
        options = RecordOptions(
            Clock(**task["clock"]),
            tuple(task["kinds"]),
            self._opening["seed"],
            greedy=not self._opening["sampled"],
            max_steps=self._opening["max_steps"],
            fps=self._opening["fps"],
        )
        if self.note:
            record_trace(self._paths, self._player, policy, options)
            return None
        return record_clip(self._paths, self._player, policy, options).path.name


if __name__ == "__main__":
    main()
