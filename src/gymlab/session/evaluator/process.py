"""The evaluation process of a run: reads questions, answers them, and ends when its parent does.

Started by `examiner.client` as `python -m gymlab.session.evaluator.process`; never forked.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from typing import Any, TextIO

from gymlab.core.errors import GymlabError
from gymlab.process.child import own_stdout


def main() -> None:
    """Answer one question at a time until the line closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a key pressed at the terminal is for the trainer
    out = own_stdout()
    opening: dict[str, Any] = json.loads(sys.stdin.readline())
    if opening["cores"] and hasattr(os, "sched_setaffinity"):  # before JAX counts them: it rounds by their number
        os.sched_setaffinity(0, opening["cores"])
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
    from gymlab.features.evaluate_async import Goal
    from gymlab.recipes.resolve import read_run_text
    from gymlab.session.evaluator.parts import open_scorer
    from gymlab.session.evaluator.protocol import answer_line, examine, read_question

    recipe = read_run_text(opening["recipe"])
    goal = Goal(**opening["goal"])
    import_all(recipe.imports)
    register(opening["registered"])
    scorer = open_scorer(recipe)
    blank = scorer.blank()
    while True:
        answer = examine(read_question(questions.get()), blank, scorer.evaluate, goal)
        print(answer_line(answer), file=out, flush=True)


def _listen(questions: queue.Queue[str]) -> None:
    """Hand questions on; where the parent is gone, an answer under way is for nobody."""
    for line in sys.stdin:
        questions.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
