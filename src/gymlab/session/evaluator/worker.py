"""Main program of an evaluation process: reads jobs, sends results, and ends when its parent does.

Started by `evaluator.client` as `python -m gymlab.session.evaluator.worker`; never forked.
"""

from __future__ import annotations

import json
import os
import queue
from typing import Any

from gymlab.core.errors import GymlabError
from gymlab.process.parent_watch import ParentPipe, ignore_signals


def main() -> None:
    """Do one job at a time until the pipe from the parent closes."""
    ignore_signals("SIGINT")  # Ctrl-C is for the trainer
    parent = ParentPipe()
    opening: dict[str, Any] = json.loads(parent.read_opening())
    if opening["cores"] and hasattr(os, "sched_setaffinity"):  # before JAX counts them: its rounding depends on them
        os.sched_setaffinity(0, opening["cores"])
    if hasattr(os, "nice"):
        os.nice(opening["nice"])
    jobs: queue.Queue[str] = queue.Queue()
    parent.listen(jobs.put)
    try:
        _serve(opening, jobs, parent)
    except GymlabError as error:
        raise SystemExit(str(error)) from error


def _serve(opening: dict[str, Any], jobs: queue.Queue[str], parent: ParentPipe) -> None:
    from gymlab.envs.make import import_all
    from gymlab.envs.registry import register_from_json
    from gymlab.features.evaluate_async import EvaluationGoal
    from gymlab.recipes.resolve import read_run_text
    from gymlab.session.evaluator.protocol import decode_job, encode_result, run_job
    from gymlab.session.evaluator.scorer import open_scorer

    recipe = read_run_text(opening["recipe"])
    goal = EvaluationGoal(**opening["goal"])
    import_all(recipe.imports)
    register_from_json(opening["registered"])
    scorer = open_scorer(recipe)
    template = scorer.policy_template()
    while True:
        result = run_job(decode_job(jobs.get()), template, scorer.evaluate, goal)
        parent.send(encode_result(result))


if __name__ == "__main__":
    main()
