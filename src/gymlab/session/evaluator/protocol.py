"""The messages between a trainer and its evaluation process (JSON, one object a line), and doing one job."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gymlab.features.evaluate_async import EvaluationGoal, EvaluationJob, EvaluationResult
from gymlab.runs.checkpoints import load_policy
from gymlab.runs.tensors import decode
from gymlab.training.evaluation import Abandon, Evaluation
from gymlab.training.named_tensors import Tensors, from_tensors
from gymlab.training.state import Policy

Evaluate = Callable[[Policy, str, int, Abandon], Evaluation]  # (policy, kind, seed, when to give up)


def run_job(
    job: EvaluationJob,
    template: Policy,
    evaluate: Evaluate,
    goal: EvaluationGoal,
    abandon: Abandon = lambda: False,
) -> EvaluationResult:
    """Score a job's policy; a periodic evaluation that reaches the goal is confirmed at once."""
    began = time.perf_counter()
    path = job.checkpoint
    tensors: Tensors = load_policy(path) if path.is_dir() else decode(path.read_bytes())
    policy = from_tensors(template, tensors)
    evaluation = evaluate(policy, job.kind, job.seed, abandon)
    confirming = None
    if job.kind == "periodic" and goal.reached(evaluation):
        confirming = evaluate(policy, "confirm", job.confirming_seed, abandon)
    return EvaluationResult(evaluation, confirming, time.perf_counter() - began)


def encode_job(job: EvaluationJob) -> str:
    return json.dumps(job._asdict() | {"checkpoint": str(job.checkpoint)})


def decode_job(line: str) -> EvaluationJob:
    fields: dict[str, Any] = json.loads(line)
    return EvaluationJob(**fields | {"checkpoint": Path(fields["checkpoint"])})


def encode_result(result: EvaluationResult) -> str:
    confirming = None if result.confirming is None else result.confirming.to_json()
    return json.dumps({"evaluation": result.evaluation.to_json(), "confirming": confirming, "seconds": result.seconds})


def decode_result(line: str) -> EvaluationResult:
    fields: dict[str, Any] = json.loads(line)
    confirming = None if fields["confirming"] is None else Evaluation.from_json(fields["confirming"])
    return EvaluationResult(Evaluation.from_json(fields["evaluation"]), confirming, fields["seconds"])
