"""`gymlab tasks`: puts the tasks of a YAML file into the queue."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gymlab.cli.options import Json, parse_seeds, print_json

if TYPE_CHECKING:
    from gymlab.campaigns.queue.jobs import JobRequest
    from gymlab.campaigns.queue.task_file import AgentTask, CommandTask, TrainTask


def tasks(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A YAML list: smoke, results, sweep, train, agent ...")],
    wait: Annotated[bool, typer.Option("--wait", help="Wait until they are done, and sum up.")] = False,
    dry: Annotated[bool, typer.Option("--dry", help="Only check the file and say what would be done.")] = False,
    json: Json = False,
) -> None:
    """Put the tasks of a file into the queue, in their order: the whole file is checked first.

    Example: gymlab tasks night.yaml --wait
    """
    from gymlab.campaigns.queue.task_file import read_tasks
    from gymlab.cli import queue
    from gymlab.recipes.project_settings import runs_folder

    requests = [request for task in read_tasks(file) for request in _requests(task)]
    if dry:
        titles = [request.title for request in requests]
        if json:
            print_json({"jobs": titles})
        else:
            typer.echo("\n".join(titles))
        return
    jobs = queue.enqueue(runs_folder(), requests, json=json and not wait)
    if wait:
        queue.wait([job.id for job in jobs], timeout=None, json=json)


def _requests(task: TrainTask | CommandTask | AgentTask) -> list[JobRequest]:
    from gymlab.campaigns.queue.jobs import JobRequest
    from gymlab.campaigns.queue.task_file import AgentTask, TrainTask

    if isinstance(task, TrainTask):
        return _train_requests(task)
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


def _train_requests(task: TrainTask) -> list[JobRequest]:
    from gymlab.cli.queue import QueuedTraining, format_options, train_requests
    from gymlab.cli.targets import RecipeArguments
    from gymlab.recipes.project_settings import runs_folder

    target = RecipeArguments(task.recipe, list(task.overrides), [], task.budget, None, None, [])
    options = format_options(("--tag", list(task.tags)), ("--note", task.note), ("--full-budget", task.full_budget))
    training = QueuedTraining(target, parse_seeds(task.seeds), None, task.group, None, options)
    return train_requests(runs_folder(), training)
