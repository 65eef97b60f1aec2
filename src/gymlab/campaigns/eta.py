"""Estimated time left of runs to train: their remaining env_steps divided by their own or their recipe's past speed."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gymlab.campaigns.scored_runs import ScoredRun
from gymlab.core.format import format_duration
from gymlab.runs.registry import Registry
from gymlab.runs.status import read_status

_MIN_SHARE = 0.05  # of the budget: before, most of a run's time was compilation


class TimeLeft(NamedTuple):
    """Seconds of training, and the number of jobs of unknown speed."""

    seconds: float
    unknown: int

    def format(self, width: int) -> str:
        """With `width` jobs at a time: `about 5:03`, `at least 0:30 (2 runs of unknown speed)`."""
        time = format_duration(max(self.seconds / max(width, 1), 1.0))
        if not self.unknown:
            return f"about {time}"
        unknown = f"{self.unknown} run{'s' * (self.unknown > 1)} of unknown speed"
        return f"at least {time} ({unknown})" if self.seconds else unknown


def known_speeds(runs_root: Path) -> dict[str, float]:
    """Median env_steps per second of past runs, by recipe."""
    found: dict[str, list[float]] = {}
    for entry in Registry(runs_root).runs():
        steps = entry.get("env_steps")
        seconds = entry.get("seconds")
        if isinstance(steps, int | float) and isinstance(seconds, int | float) and seconds > 1:
            found.setdefault(str(entry.get("name")), []).append(steps / seconds)
    return {name: statistics.median(speeds) for name, speeds in found.items()}


def steps_done(job: ScoredRun) -> tuple[int, float]:
    """env_steps and seconds of training so far."""
    clock = read_status(job.paths).get("clock") if job.paths.exists else None
    if not isinstance(clock, dict):
        return 0, 0.0
    return int(clock.get("env_steps", 0)), float(clock.get("seconds", 0.0))


def time_left(jobs: Sequence[ScoredRun], speeds: Mapping[str, float]) -> TimeLeft:
    """A run's own speed is used once it is known, before that the speed of its recipe."""
    seconds = 0.0
    unknown = 0
    for job in jobs:
        if job.seeded is None:
            continue
        done, spent = steps_done(job)
        begun = done >= _MIN_SHARE * job.seeded.budget_env_steps and spent > 0
        speed = done / spent if begun else speeds.get(job.seeded.recipe.name)
        if speed is None:
            unknown += 1
        else:
            seconds += max(job.seeded.budget_env_steps - done, 0) / speed
    return TimeLeft(seconds, unknown)
