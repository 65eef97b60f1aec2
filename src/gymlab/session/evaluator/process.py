"""The evaluation process of a run: reads questions, answers them, and ends when its parent does.

Started by `evaluator.client` as `python -m gymlab.session.evaluator.process`; never forked.
"""

from __future__ import annotations

import json
import os
import queue
from typing import Any

from gymlab.core.errors import GymlabError
from gymlab.process.parent_watch import ParentPipe, ignore_signals


def main() -> None:
    """Answer one question at a time until the line closes."""
    ignore_signals("SIGINT")  # a key pressed at the terminal is for the trainer
    parent = ParentPipe()
    opening: dict[str, Any] = json.loads(parent.read_opening())
    if opening["cores"] and hasattr(os, "sched_setaffinity"):  # before JAX counts them: it rounds by their number
        os.sched_setaffinity(0, opening["cores"])
    if hasattr(os, "nice"):
        os.nice(opening["nice"])
    questions: queue.Queue[str] = queue.Queue()
    parent.listen(questions.put)
    try:
        _answer(opening, questions, parent)
    except GymlabError as error:
        raise SystemExit(str(error)) from error


def _answer(opening: dict[str, Any], questions: queue.Queue[str], parent: ParentPipe) -> None:
    from gymlab.envs.make import import_all
    from gymlab.envs.registry import register_from_json
    from gymlab.features.evaluate_async import Goal
    from gymlab.recipes.resolve import read_run_text
    from gymlab.session.evaluator.parts import open_scorer
    from gymlab.session.evaluator.protocol import answer_line, examine, read_question

    recipe = read_run_text(opening["recipe"])
    goal = Goal(**opening["goal"])
    import_all(recipe.imports)
    register_from_json(opening["registered"])
    scorer = open_scorer(recipe)
    blank = scorer.blank()
    while True:
        answer = examine(read_question(questions.get()), blank, scorer.evaluate, goal)
        parent.send(answer_line(answer))


if __name__ == "__main__":
    main()
