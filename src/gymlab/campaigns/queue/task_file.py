"""Task file of `gymlab tasks`: a YAML list of work for the queue. Each entry is one kind of task with its settings."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gymlab.core.errors import UserError, suggestion
from gymlab.core.types import Json
from gymlab.recipes.problems import Problems
from gymlab.recipes.yaml_source import Node, read_file

_PLACEHOLDER = re.compile(r"\{(prompt|prompt_file|runs)\}")


class _TaskModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TrainTask(_TaskModel):
    """One run per seed."""

    recipe: str
    overrides: tuple[str, ...] = ()
    seeds: str = "1"
    budget: str | None = None
    full_budget: bool = False
    tags: tuple[str, ...] = ()
    group: str | None = None
    note: str | None = None


class CommandTask(_TaskModel):
    """A command of gymlab's: `smoke`, `results run`, `sweep` ..., with its arguments."""

    arguments: tuple[str, ...]


class AgentTask(_TaskModel):
    """A program of the user's, started without a shell. {prompt_file}, {prompt} and {runs} in it are filled in."""

    command: Annotated[tuple[str, ...], Field(min_length=1)]
    prompt: Literal["diagnose", "next-steps"] | None = None
    run: str = "@last"  # whose diagnosis
    minutes: Annotated[float, Field(gt=0)] | None = None
    retries: Annotated[int, Field(ge=0, le=10)] = 0


KINDS = ("train", "smoke", "results", "sweep", "autotune", "eval", "agent")
_COMMANDS = {"results": ("results", "run")}  # the others are called as they are


def read_tasks(path: Path) -> list[TrainTask | CommandTask | AgentTask]:
    """Every task of a file; one UserError that lists all problems with their lines."""
    problems = Problems()
    root = read_file(path, problems)
    problems.raise_any()
    if not isinstance(root.value, list) or not root.value:
        raise UserError(f"{path}: expected a list of tasks such as `- smoke: all`")
    tasks = []
    faults = []
    for node in root.value:
        try:
            tasks.append(_task(node))
        except ValueError as error:
            faults.append(f"{node.location}: {error}")
    if faults:
        raise UserError("\n".join(faults))
    return tasks


def _task(node: Node) -> TrainTask | CommandTask | AgentTask:
    data = node.to_data()
    if not isinstance(data, dict) or len(data) != 1:
        raise ValueError(f"a task is one kind with its settings, e.g. `- train: CartPole-v1:ppo`, got {data!r:.80}")
    ((kind, settings),) = data.items()
    if kind not in KINDS:
        raise ValueError(f"unknown task '{kind}': {suggestion(str(kind), KINDS)}")
    try:
        if kind == "train":
            return TrainTask.model_validate(settings if isinstance(settings, dict) else _train(_words(settings)))
        if kind == "agent":
            return _agent(settings if isinstance(settings, dict) else {"command": settings})
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, e['loc'])) or kind}: {e['msg'].lower()}" for e in error.errors())
        raise ValueError(f"{kind}: {faults}") from None
    words = [] if settings in (None, "all", True) else _words(settings)
    return CommandTask(arguments=(*_COMMANDS.get(kind, (kind,)), *words))


def _agent(settings: dict[str, Json]) -> AgentTask:
    agent = AgentTask.model_validate(settings)
    asked = {name for word in agent.command for name in _PLACEHOLDER.findall(word)} - {"runs"}
    if asked and agent.prompt is None:
        raise ValueError(f"agent: {{{sorted(asked)[0]}}} needs `prompt: diagnose` or `prompt: next-steps`")
    return agent


def _train(words: list[str]) -> dict[str, Json]:
    """`CartPole-v1:ppo learning_rate=1e-3` as it is typed."""
    if not words or any(word.startswith("-") for word in words):
        raise ValueError("train: a recipe and overrides, or a mapping with recipe, overrides, seeds, budget, tags ...")
    return {"recipe": words[0], "overrides": tuple(words[1:])}


def _words(settings: Json) -> list[str]:
    if isinstance(settings, str):
        return shlex.split(settings)
    if isinstance(settings, list) and all(isinstance(word, str | int | float) for word in settings):
        return [str(word) for word in settings]
    raise ValueError(f"expected words or a list of them, got {settings!r:.80}")
