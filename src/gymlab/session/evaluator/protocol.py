"""What the trainer and its evaluation process say to each other: JSON, one object a line."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gymlab.features.evaluate_async import Answer, Goal, Question
from gymlab.runs.checkpoints import load_policy
from gymlab.runs.tensors import decode
from gymlab.training.evaluation import Abandon, Evaluation
from gymlab.training.named_tensors import Tensors, from_tensors
from gymlab.training.state import Policy

Evaluate = Callable[[Policy, str, int, Abandon], Evaluation]  # (policy, kind, seed, when to give up)


def examine(
    question: Question, blank: Policy, evaluate: Evaluate, goal: Goal, abandon: Abandon = lambda: False
) -> Answer:
    """Score the policy a question is about; a periodic evaluation that reaches the goal is confirmed on the spot."""
    began = time.perf_counter()
    place = question.checkpoint
    tensors: Tensors = load_policy(place) if place.is_dir() else decode(place.read_bytes())
    policy = from_tensors(blank, tensors)
    evaluation = evaluate(policy, question.kind, question.seed, abandon)
    confirming = None
    if question.kind == "periodic" and goal.reached(evaluation):
        confirming = evaluate(policy, "confirm", question.confirming_seed, abandon)
    return Answer(evaluation, confirming, time.perf_counter() - began)


def question_line(question: Question) -> str:
    return json.dumps(question._replace(checkpoint=str(question.checkpoint))._asdict())  # type: ignore[arg-type]


def read_question(line: str) -> Question:
    fields: dict[str, Any] = json.loads(line)
    return Question(**fields | {"checkpoint": Path(fields["checkpoint"])})


def answer_line(answer: Answer) -> str:
    confirming = None if answer.confirming is None else answer.confirming.to_json()
    return json.dumps({"evaluation": answer.evaluation.to_json(), "confirming": confirming, "seconds": answer.seconds})


def read_answer(line: str) -> Answer:
    fields: dict[str, Any] = json.loads(line)
    confirming = None if fields["confirming"] is None else Evaluation.from_json(fields["confirming"])
    return Answer(Evaluation.from_json(fields["evaluation"]), confirming, fields["seconds"])
