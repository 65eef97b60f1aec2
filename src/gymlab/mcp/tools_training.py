"""Tools that start, watch and stop training. Runs are jobs of the queue, each in a process of its own."""

from __future__ import annotations

import re
import time
from typing import Annotated

import anyio
from pydantic import Field

from gymlab.campaigns.queue.runner import ensure_runner
from gymlab.core.errors import UserError, suggestion
from gymlab.mcp.answers import JobEntry, QueueAnswer, StartAnswer, StartedRun, StatusAnswer, WaitAnswer
from gymlab.mcp.arguments import Budget, Checkpoint, Key, Overrides, Recipe, Run, Tags
from gymlab.mcp.commands import gymlab_json
from gymlab.mcp.config import ServerConfig
from gymlab.mcp.status import find_run_and_job, last_row, read_run_facts, run_status
from gymlab.mcp.tools_catalogue import flat_settings, resolved_recipe
from gymlab.runs.locks import lock_holder
from gymlab.runs.requests import request_stop, wait_for_release

MOST_WAIT = 50.0
_POLL_SECONDS = 0.5
_STOP_SECONDS = 20.0
_OPEN = ("queued", "starting", "running")
_CONDITION = re.compile(r"\s*([\w/.@-]+)\s*(>=|<=|>|<)\s*([-+]?[0-9.]+(?:[eE][-+]?\d+)?)\s*")
_BETTER = {
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
}


def start_training(
    config: ServerConfig,
    recipe: Recipe,
    overrides: Overrides = None,
    seeds: Annotated[
        str, Field(pattern=r"^[0-9.,]{1,100}$", description="How many (3), from..to (0..2) or a list (1,5).")
    ] = "1",
    budget: Budget = None,
    tags: Tags = None,
    note: Annotated[str | None, Field(max_length=500, description="Free text kept with the run.")] = None,
    key: Key = None,
) -> StartAnswer:
    """Start training, one run per seed, in the background; overrides are checked first. Then use wait or status."""
    words = [config.recipe(recipe), *config.overrides(overrides or [])]
    if config.max_steps is not None:
        _check_budget(config, recipe, [*(overrides or []), *([f"budget={budget}"] if budget else [])])
    words += ["--seeds", seeds] if seeds != "1" else []
    for name, value in (("--budget", budget), ("--note", note), ("--key", key)):
        words += [f"{name}={value}"] if value else []
    words += [f"--tag={tag}" for tag in tags or []]
    return _start_answer(gymlab_json(config, "train", *words, "--queue"))


def resume(
    config: ServerConfig, run: Checkpoint, overrides: Overrides = None, budget: Budget = None, key: Key = None
) -> StartAnswer:
    """Go on with a stopped or crashed run, or with a finished one and a larger budget; changes as overrides."""
    named = run if "/" in run else f"{run}/last"
    paths, which = config.checkpoint(named)
    words = [f"{paths.run_id}/{which}", *config.overrides(overrides or [])]
    words += [f"--{name}={value}" for name, value in (("budget", budget), ("key", key)) if value]
    return _start_answer(gymlab_json(config, "resume", *words, "--queue"))


def status(config: ServerConfig, run: Run) -> StatusAnswer:
    """Status of a run: queued, running or ended, its steps, returns, alerts."""
    return run_status(config, run)


async def wait(
    config: ServerConfig,
    run: Run,
    until: Annotated[
        str, Field(max_length=100, description="'finished' or a condition such as 'roll/return_mean >= 400'.")
    ] = "finished",
    timeout_s: Annotated[float, Field(ge=0, le=MOST_WAIT)] = 45.0,
) -> WaitAnswer:
    """Wait until a run has ended or a metric meets a condition; returns within 50 s either way, with the status."""
    condition = None if until == "finished" else _condition(until)
    deadline = time.monotonic() + timeout_s
    if config.write:
        await anyio.to_thread.run_sync(ensure_runner, config.queue)
    while True:
        now = await anyio.to_thread.run_sync(run_status, config, run)
        if condition is not None and await anyio.to_thread.run_sync(_met, config, run, condition):
            return WaitAnswer(reached=True, why=until, status=now)
        if now.status not in _OPEN:
            return WaitAnswer(reached=condition is None, why=f"the run is {now.status}", status=now)
        if time.monotonic() >= deadline:
            return WaitAnswer(reached=False, why=f"not within {timeout_s:g} s: wait again", status=now)
        await anyio.sleep(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic())))


def stop(config: ServerConfig, run: Run) -> StatusAnswer:
    """Stop a run (or a job, by its number): it writes a checkpoint and ends. One that waits is taken out."""
    paths, job = find_run_and_job(config, run)
    if job is not None and job.open:
        config.queue.cancel(job.id)
    if paths is not None and (owner := lock_holder(paths.lock)) is not None:
        if job is None or not job.open:
            request_stop(paths, owner)
        wait_for_release(paths, owner, _STOP_SECONDS)
    deadline = time.monotonic() + _STOP_SECONDS
    while job is not None and config.queue.find(job.id).open and time.monotonic() < deadline:
        ensure_runner(config.queue)
        time.sleep(0.1)
    return run_status(config, run)


def queue(config: ServerConfig) -> QueueAnswer:
    """What waits and runs, in order, and the last that ended; limits make jobs wait, they do not refuse them."""
    contents = config.queue.read()
    ended = [job for job in contents.jobs if not job.open][-5:]
    jobs = [*ended, *(job for job in contents.jobs if job.open)][:40]
    shown = [
        JobEntry(job=job.id, state=job.state, title=job.title[:160], run_id=job.run_id, message=job.message or None)
        for job in jobs
    ]
    limits = contents.limits
    return QueueAnswer(
        jobs=shown, limit_jobs=limits.jobs, limit_steps=limits.steps, runner=config.queue.runner() is not None
    )


def _start_answer(answer: dict[str, list[dict[str, str]]]) -> StartAnswer:
    runs = [StartedRun.model_validate(job) for job in answer["jobs"]]
    return StartAnswer(runs=runs, next=f"wait(run='{runs[0].run_id}')")


def _check_budget(config: ServerConfig, recipe: str, overrides: list[str]) -> None:
    from gymlab.core.clock import parse_number

    settings = flat_settings(resolved_recipe(config, recipe, overrides)["recipe"])
    count, _, clock = str(settings["budget"]).partition(" ")
    steps = int(parse_number(count) or 0) * (int(settings["n_envs"]) if clock == "vec_steps" else 1)
    if config.max_steps is not None and steps > config.max_steps:
        raise UserError(f"budget: {steps} env_steps is more than this server allows: at most {config.max_steps}")


def _condition(text: str) -> tuple[str, str, float]:
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise UserError(f"until {text[:80]!r}: 'finished' or METRIC >= NUMBER, e.g. 'eval/greedy_mean >= 475'")
    from gymlab.metrics.catalogue import check_names
    from gymlab.metrics.explain import names

    if check_names([found[1]]):
        raise UserError(f"until {text[:80]!r}: unknown metric '{found[1]}': {suggestion(found[1], names())}")
    return found[1], found[2], float(found[3])


def _met(config: ServerConfig, run: str, condition: tuple[str, str, float]) -> bool:
    name, sign, value = condition
    paths, _ = find_run_and_job(config, run)
    if paths is None:
        return False
    if name.startswith("eval/"):  # absent from most rows: take the newest value
        curve = read_run_facts(paths, [name]).measured.curves.get(name)
        return curve is not None and len(curve) > 0 and bool(_BETTER[sign](curve.last, value))
    row = last_row(paths)
    return name in row and bool(_BETTER[sign](row[name], value))
