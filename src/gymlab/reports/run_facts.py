"""The facts of a run, read once from its folder: the input of pages, reports and comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

import numpy as np

from gymlab.core.clock import parse_number
from gymlab.core.errors import RunError
from gymlab.core.types import JsonObject
from gymlab.metrics.catalogue import headlines
from gymlab.reports.scoring import Evaluations, Score, counted_returns, score
from gymlab.runs.checkpoints import read_index, steps
from gymlab.runs.manifest import checkpoint_clock, read_manifest
from gymlab.runs.metrics_reader import Curve, CurveReader
from gymlab.runs.paths import RunPaths
from gymlab.runs.records import CheckpointIndex, ManifestRecord, StatusRecord, SummaryRecord
from gymlab.runs.registry import read_tags
from gymlab.runs.status import read_status

PHASES = ("time/collect", "time/update", "time/evaluate", "time/checkpoint", "time/record", "time/compile")
_NO_EVALUATIONS = Evaluations(np.empty(0), np.empty(0))


@dataclass(frozen=True)
class Measurements:
    """The metrics of a run, downsampled."""

    names: tuple[str, ...] = ()
    last: Mapping[str, float] = field(default_factory=dict)
    curves: Mapping[str, Curve] = field(default_factory=dict)
    totals: Mapping[str, float] = field(default_factory=dict)  # of the phases, in seconds
    evaluations: Evaluations = _NO_EVALUATIONS


class CheckpointsFacts(CheckpointIndex):
    """The index of a run's checkpoints, and all their steps on the clock that names their folders, newest first."""

    clock: str
    steps: list[int]


@dataclass(frozen=True)
class Facts:
    """Everything known about a run."""

    paths: RunPaths
    manifest: ManifestRecord
    status: StatusRecord
    settings: JsonObject  # flat keys, as written in the run's recipe
    tags: Sequence[str]
    measured: Measurements

    @cached_property
    def checkpoints(self) -> CheckpointsFacts:
        """Read on first use: it opens every checkpoint folder, and most callers need only the score."""
        return {**read_index(self.paths), "clock": checkpoint_clock(self.paths), "steps": steps(self.paths)}

    @property
    def run_id(self) -> str:
        return self.paths.run_id

    @property
    def name(self) -> str:
        """`ENV:VARIANT`."""
        return str(self.manifest.get("recipe") or "unknown recipe")

    @property
    def clock(self) -> Mapping[str, float]:
        known = self.status.get("clock")
        return cast("Mapping[str, float]", known) if isinstance(known, dict) else {}

    @property
    def summary(self) -> SummaryRecord:
        known = self.status.get("summary")
        return known if isinstance(known, dict) else {}

    @property
    def solved_by(self) -> str:
        return str(self.settings.get("stop.solved_by", "greedy"))

    @property
    def solved_at(self) -> float | None:
        threshold = self.settings.get("env.solved_at", self.manifest.get("solved_at"))
        return float(threshold) if isinstance(threshold, int | float) else None

    @property
    def budget(self) -> int | None:
        """In env steps."""
        count, _, clock = str(self.settings.get("budget", "")).partition(" ")
        value = parse_number(count)
        n_envs = self.settings.get("n_envs")
        if not isinstance(value, int) or not isinstance(n_envs, int):
            return None
        return value * (n_envs if clock == "vec_steps" else 1)

    @property
    def over_budget(self) -> int | None:
        """By how many env steps the run went beyond its budget: updates are whole."""
        done = self.clock.get("env_steps")
        return None if self.budget is None or done is None else max(0, int(done) - self.budget)

    @property
    def score(self) -> Score:
        stored = self.clock.get("env_steps")
        last = self.measured.last.get("env_steps", 0.0)
        done = stored if isinstance(stored, int) else int(last) if np.isfinite(last) else 0
        finished = self.status.get("status") == "finished"
        return score(self.measured.evaluations, self.solved_at, budget=self.budget, done=done, finished=finished)


def read_facts(
    paths: RunPaths,
    settings: JsonObject,
    *,
    metrics: Sequence[str] | None = None,
    axis: str = "vec_steps",
    points: int = 400,
) -> Facts:
    """Everything about a run; curves of the named metrics, or of those worth showing."""
    return Facts(
        paths=paths,
        manifest=read_manifest(paths),
        status=read_status(paths),
        settings=settings,
        tags=read_tags(paths),
        measured=_measure(paths, str(settings.get("stop.solved_by", "greedy")), metrics, axis, points),
    )


def _measure(paths: RunPaths, solved_by: str, metrics: Sequence[str] | None, axis: str, points: int) -> Measurements:
    try:
        with CurveReader(paths.metrics) as reader:
            known = reader.names()
            shown = headlines(known) if metrics is None else metrics
            return Measurements(
                names=tuple(known),
                last=reader.last(),
                curves=reader.curves(shown, axis, points) if shown else {},
                totals=reader.totals([name for name in PHASES if name in known]),
                evaluations=_evaluations(reader, known, solved_by),
            )
    except RunError:  # not started, or damaged: the rest of the run is still worth showing
        return Measurements()


def _evaluations(reader: CurveReader, known: Sequence[str], solved_by: str) -> Evaluations:
    names = ("eval/greedy_mean", "eval/sampled_mean")
    if not set(names) <= set(known):
        return _NO_EVALUATIONS
    columns = reader.measured("env_steps", names)
    at, greedy = columns[names[0]]
    _, sampled = columns[names[1]]
    if len(greedy) != len(sampled):
        return _NO_EVALUATIONS
    counted = counted_returns(greedy, sampled, solved_by)
    finite = np.isfinite(counted)
    first = reader.first("score/first_return")
    if np.isnan(first):  # no evaluation has stored it yet
        first = reader.first("roll/return_mean")
    return Evaluations(at[finite], counted[finite], first)
