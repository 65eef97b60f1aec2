"""The evaluation process of a run: reads questions, answers them, and ends when its parent does.

Started by `examiner.client` as `python -m gymlab.experiment.examiner.process`; never forked.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from gymlab.core.errors import GymlabError

if TYPE_CHECKING:
    from gymlab.recipes.schema import Recipe


def main() -> None:
    """Answer one question at a time until the line closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a key pressed at the terminal is for the trainer
    out = _own_stdout()
    opening: dict[str, Any] = json.loads(sys.stdin.readline())
    if hasattr(os, "nice"):
        os.nice(opening["nice"])
    questions: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_listen, args=(questions,), daemon=True).start()
    try:
        _answer(opening, questions, out)
    except GymlabError as error:
        raise SystemExit(str(error)) from error


def _answer(opening: dict[str, Any], questions: queue.Queue[str], out: TextIO) -> None:
    from gymlab.envs.make import import_all
    from gymlab.envs.registration import register
    from gymlab.experiment.examiner.parts import open_scorer
    from gymlab.experiment.examiner.protocol import answer_line, examine, read_question
    from gymlab.features.evaluate.aside import Goal

    recipe, goal = _recipe(opening["recipe"]), Goal(**opening["goal"])
    import_all(recipe.imports)
    register(opening["registered"])
    scorer = open_scorer(recipe)
    blank = scorer.blank()
    while True:
        answer = examine(read_question(questions.get()), blank, scorer.evaluate, goal)
        print(answer_line(answer), file=out, flush=True)


def _recipe(text: str) -> Recipe:
    from gymlab.recipes.load import read_run_recipe

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "recipe.yaml")
        path.write_text(text, encoding="utf-8")
        return read_run_recipe(path)


def _listen(questions: queue.Queue[str]) -> None:
    """Hand questions on; where the parent is gone, an answer under way is for nobody."""
    for line in sys.stdin:
        questions.put(line)
    os._exit(0)


def _own_stdout() -> TextIO:
    """The line to the parent, out of reach of envs that print."""
    line = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(line, "w")


if __name__ == "__main__":
    main()
