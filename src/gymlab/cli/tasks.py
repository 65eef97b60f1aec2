"""`gymlab tasks`: a list of things to do overnight, through the queue."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gymlab.cli.options import Json

if TYPE_CHECKING:
    from gymlab.campaigns.queue.jobs import JobRequest
    from gymlab.campaigns.queue.tasks import AgentTask, CommandTask, TrainTask


def tasks(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A YAML list: smoke, results, sweep, train, agent ...")],
    wait: Annotated[bool, typer.Option("--wait", help="Wait until they are done, and sum up.")] = False,
    dry: Annotated[bool, typer.Option("--dry", help="Only check the file and say what would be done.")] = False,
    json: Json = False,
) -> None:
    """Put the tasks of a file into the queue, in their order: the whole file is checked first.

    Example: gymlab tasks night.yaml --wait
    """
    from gymlab.campaigns.queue.tasks import read_tasks
    from gymlab.cli import queue
    from gymlab.cli.queueing import put_in
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.runs.files import strict_json

    requests = [request for task in read_tasks(file) for request in _requests(task)]
    if dry:
        told = [request.title for request in requests]
        typer.echo(strict_json({"jobs": told}) if json else "\n".join(told))
        return
    jobs = put_in(runs_folder(), requests, json=json and not wait)
    if wait:
        queue.wait([job.id for job in jobs], timeout=None, as_json=json)


def _requests(task: TrainTask | CommandTask | AgentTask) -> list[JobRequest]:
    from gymlab.campaigns.queue.jobs import JobRequest
    from gymlab.campaigns.queue.tasks import AgentTask, TrainTask

    if isinstance(task, TrainTask):
        return _trainings(task)
    if isinstance(task, AgentTask):
        prompts = {None: (), "next-steps": ("next-steps",), "diagnose": ("diagnose", task.run)}
        title = f"agent {' '.join(task.command)}"[:120]
        return [
            JobRequest(
                title,
                task.command,
                os.getcwd(),
                program=True,
                retries=task.retries,
                prompt=prompts[task.prompt],
                minutes=task.minutes,
            )
        ]
    return [JobRequest(" ".join(task.arguments) + " all" * (len(task.arguments) == 1), task.arguments, os.getcwd())]


def _trainings(task: TrainTask) -> list[JobRequest]:
    from gymlab.cli.many import parse_seeds
    from gymlab.cli.queueing import Order, train_requests, written
    from gymlab.cli.targets import Sought
    from gymlab.recipes.project_settings import runs_folder

    sought = Sought(task.recipe, list(task.overrides), [], task.budget, None, None, [])
    options = written(("--tag", list(task.tags)), ("--note", task.note), ("--full-budget", task.full_budget))
    order = Order(sought, parse_seeds(task.seeds), None, task.group, None, options)
    return train_requests(runs_folder(), order)
