"""The process that films a run while it trains: `python -m gymlab.media.recorder`, started by `features.video`.

It reads one JSON line per policy and answers each with one. It ends when its standard input does.
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
    """Serve until the parent is gone, behind everyone else who wants the processors."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what envs print must not end up among the answers
    asked: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(asked,), daemon=True).start()
    opening = asked.get()
    with contextlib.suppress(AttributeError, OSError):
        os.nice(10)
    with contextlib.suppress(BrokenPipeError):
        _serve(opening, asked, answers)


def _listen(asked: queue.SimpleQueue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        asked.put(json.loads(line))
    os._exit(1)  # the parent is gone: a film half written under a temporary name is swept up by the next one


def _serve(opening: dict[str, Any], asked: queue.SimpleQueue[dict[str, Any]], answers: IO[str]) -> None:
    def answer(**fields: Any) -> None:
        answers.write(json.dumps(fields) + "\n")
        answers.flush()

    try:
        camera = _Camera(opening)
        if camera.note:
            answer(note=camera.note)
    except Exception as error:
        answer(over=_told(error))
        return
    while True:
        task = asked.get()
        try:
            answer(film=camera.film(task))
        except Exception as error:
            answer(failed=_told(error))


def _told(error: Exception) -> str:
    from gymlab.core.errors import GymlabError

    if isinstance(error, GymlabError):
        return str(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"


class _Camera:
    """Films policies of one run; where that cannot be, it still writes their tables."""

    def __init__(self, opening: dict[str, Any]) -> None:
        from gymlab.core.errors import UserError
        from gymlab.media.camera import why_no_film
        from gymlab.media.policy_player import open_stage
        from gymlab.media.record_episode import filmed_stage
        from gymlab.recipes.resolve import read_run_recipe
        from gymlab.runs.paths import RunPaths

        self._paths = RunPaths(Path(opening["run"]))
        self._opening = opening
        self.note = why_no_film()
        recipe = read_run_recipe(self._paths.recipe)
        if not self.note:
            try:
                self._stage = filmed_stage(recipe)
                return
            except UserError as error:
                self.note = str(error)
        self._stage = open_stage(recipe)

    def film(self, task: dict[str, Any]) -> str | None:
        """Film a policy; the film's name, if there is one."""
        from gymlab.core.clock import Clock
        from gymlab.media.record_episode import Shot, record_clip, record_table
        from gymlab.runs import files, tensors

        policy = self._stage.policy(tensors.decode(files.read_bytes(Path(task["policy"]))))
        shot = Shot(
            Clock(**task["clock"]),
            tuple(task["kinds"]),
            self._opening["seed"],
            greedy=not self._opening["sampled"],
            max_steps=self._opening["max_steps"],
            fps=self._opening["fps"],
        )
        if self.note:
            record_table(self._paths, self._stage, policy, shot)
            return None
        return record_clip(self._paths, self._stage, policy, shot).path.name


if __name__ == "__main__":
    main()
