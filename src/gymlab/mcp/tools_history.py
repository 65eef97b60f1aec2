"""Tools about what happened: a digest since a time; and removing runs, where the server allows it."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from typing import Annotated, Any

from pydantic import Field

from gymlab.core.errors import UserError
from gymlab.mcp.answers import Digest, Event, Removed
from gymlab.mcp.arguments import Limit, Run
from gymlab.mcp.config import Lab
from gymlab.runs.paths import RunPaths
from gymlab.runs.registry import Registry
from gymlab.runs.status import read_status

_AGO = re.compile(r"(\d{1,5})\s*(s|m|h|d)")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def digest(
    lab: Lab,
    since: Annotated[str, Field(max_length=40, description="'2h', '30m', or a time such as 2026-11-15T08:00:00Z.")],
    limit: Limit = 20,
) -> Digest:
    """What happened since a time: runs that began and ended, with their results; what runs and waits now."""
    start = _time(since)
    runs = Registry(lab.root).runs()
    jobs = lab.queue.jobs()
    events = [event for run in runs for event in _of_run(lab, run)]
    events += [
        Event(
            time=job.ended, what=f"job {job.state}: {job.title[:120]} {job.told}".strip(), run_id=job.run_id, job=job.id
        )
        for job in jobs
        if job.ended is not None and job.state in ("failed", "cancelled")
    ]
    recent = sorted((e for e in events if e.time >= start), key=lambda event: event.time, reverse=True)
    count = Counter(event.what.partition(":")[0] for event in recent)
    return Digest(
        since=start,
        events=[event.model_copy(update={"time": event.time[:19]}) for event in recent[:limit]],
        running=[run["id"] for run in runs if run["status"] == "running"][:20],
        waiting=sum(job.state == "waiting" for job in jobs),
        summary=", ".join(f"{number} {what}" for what, number in count.items()) or "nothing happened",
    )


def delete_run(lab: Lab, run: Run) -> Removed:
    """Remove a run for good. One that is running is refused; only by its full id."""
    from gymlab.runs.store import remove_run

    paths = lab.run(run)
    if paths.run_id != run:
        raise UserError(f"run {run!r}: name the whole id ('{paths.run_id}') to remove it")
    remove_run(paths)
    return Removed(run_id=paths.run_id)


def _of_run(lab: Lab, run: dict[str, Any]) -> list[Event]:
    name = f"{run.get('name')} seed {run.get('seed')}"
    events = [Event(time=str(run.get("created") or ""), what=f"began: {name}", run_id=run["id"])]
    if run["status"] == "running":
        return events
    status = read_status(RunPaths(lab.root / run["id"]))
    ended = status.get("ended") or status.get("heartbeat")
    if ended:
        best = run.get("best_return")
        result = f", best return {best:.6g}" if isinstance(best, int | float) else ""
        solved = {True: ", solved", False: ", not solved"}.get(run.get("solved"), "")  # type: ignore[arg-type]
        events.append(Event(time=str(ended), what=f"{run['status']}: {name}{result}{solved}", run_id=run["id"]))
    return events


def _time(text: str) -> str:
    """Times of the records are UTC in one format, so that they compare as text."""
    ago = _AGO.fullmatch(text.strip())
    try:
        if ago is not None:
            moment = datetime.datetime.now(datetime.UTC) - datetime.timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        else:
            moment = datetime.datetime.fromisoformat(text.strip())
            moment = moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment.astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        raise UserError(f"since {text[:40]!r}: '30m', '2h', '1d' or a time such as 2026-11-15T08:00:00Z") from None
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
