"""Session: one run in its run folder. `prepare` makes everything ready, `run` trains."""

from __future__ import annotations

import math
import shlex
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np

from gymlab.core.clock import Clock
from gymlab.core.errors import GymlabError
from gymlab.core.types import Json
from gymlab.envs.references import reference_hash
from gymlab.envs.registry import foreign_registration_json
from gymlab.envs.step_buffer import leaf_shape
from gymlab.features.logfile import LogFile
from gymlab.features.record import Record
from gymlab.features.remote_control import RemoteControl
from gymlab.features.video import FilmsAtEnd
from gymlab.metrics.catalogue import reproducible
from gymlab.metrics.run_totals import RunTotals
from gymlab.recipes.overrides import Change
from gymlab.recipes.schema import Recipe, Steps
from gymlab.recipes.secrets import dump_redacted_recipe
from gymlab.runs.checkpoints import read_index, save_checkpoint
from gymlab.runs.disk_space import Room, check_room, disk_fault
from gymlab.runs.locks import Owner
from gymlab.runs.manifest import build_manifest, checkpoint_clock, fingerprint, versions
from gymlab.runs.metrics_writer import MetricsWriter
from gymlab.runs.paths import RunPaths
from gymlab.runs.records import CheckpointInfo, ManifestRecord
from gymlab.runs.redact import argv_secrets, keep_secret, redact_argv
from gymlab.runs.store import RunStore
from gymlab.session.build import Parts, build, histogram_rule, updates_per_row
from gymlab.session.choose_engine import env_description
from gymlab.session.evaluation_features import core_sharing, evaluation_features
from gymlab.session.failures import describe_failures, require_no_nan
from gymlab.session.result import LatestEvaluation, Result
from gymlab.session.run_features import make_report, make_video, references, restore_features, run_features
from gymlab.session.run_guard import RunGuard, guard_run
from gymlab.session.run_summary import RunSummary, summarize_run
from gymlab.session.signals import watch_signals
from gymlab.session.startup_tuning import resume_collection
from gymlab.trackers.assemble import Trackers, make_tracker
from gymlab.training.events import Checkpointed, CheckpointKind, Feature, FeatureState
from gymlab.training.loop import Barrier, Loop, TrainOutcome
from gymlab.training.named_tensors import to_tensors
from gymlab.training.state import TrainState

Announce = Callable[[RunSummary], None]  # called once everything is ready
Make = Callable[..., Parts]  # (recipe, seed, horizon): `build` or a wrapper of it


@dataclass(frozen=True)
class Options:
    """Options of a session that are not part of the recipe."""

    seed: int = 0
    run_id: str | None = None
    full_budget: bool = False
    tags: tuple[str, ...] = ()
    group: str | None = None
    note: str | None = None
    command: tuple[str, ...] = field(default_factory=lambda: tuple(sys.argv))
    solved_at_source: str | None = None
    notes: tuple[str, ...] = ()  # on how the recipe was resolved
    changes: tuple[Change, ...] = ()
    trackers: Trackers = field(default_factory=Trackers)
    evaluator_cores: tuple[int, ...] | None = None  # if this process is pinned to fewer


@dataclass(frozen=True)
class Position:
    """Where training begins: the state, its clock, the states of the features, and the end of the schedules."""

    state: TrainState
    clock: Clock = field(default_factory=Clock)
    features: dict[str, FeatureState] = field(default_factory=dict)
    horizon: Steps | None = None  # None: the budget
    resumed: bool = False
    notes: tuple[str, ...] = ()  # for the header and the log


class Start(ABC):
    """A kind of start of a run; `session.start` has all of them. `prepare` calls the methods in this order."""

    runs_root: Path
    horizon: Steps | None = None  # where schedules end; None: at the budget
    store: RunStore | None = None  # the folder of an existing run; a new one is created when everything is ready

    def claim(self, recipe: Recipe, guard: RunGuard) -> Start:
        """Lock an existing run and read its checkpoint. Returns the kind of start that follows from it."""
        del recipe, guard
        return self

    @abstractmethod
    def position(self, parts: Parts, initial: TrainState) -> Position:
        """Where training begins; `initial` is the state at the seed."""

    @abstractmethod
    def write(self, session: Session) -> None:
        """Write what describes the run or this session, before the first update."""


@contextmanager
def prepare(
    recipe: Recipe,
    options: Options,
    start: Start,
    *,
    watchers: Sequence[Feature] = (),
    announce: Announce = lambda _: None,
    make: Make = build,
) -> Iterator[Session]:
    """Everything before the first update; the session is then trained by `run`.

    `make` builds the parts; executors pass one that shares compiled parts between runs.
    """
    with guard_run() as guard:
        start = start.claim(recipe, guard)
        parts = make(recipe, options.seed, horizon=start.horizon)
        guard.at_exit(parts.program.close)
        position = start.position(parts, parts.program.start(options.seed, ahead=True))
        held = 0 if start.store is None else _checkpoint_bytes(start.store.paths)
        check_room(start.runs_root, required_space(parts, position), held=held)
        new = partial(RunStore.create, start.runs_root, options.run_id, name=recipe.name)
        store = start.store or guard.open_store(new)
        session = Session(parts, store, options, position, guard, watchers)
        start.write(session)
        resume_collection()
        announce(session.summary)
        yield session


class Session:
    """A run folder, the parts of a run, and its features."""

    def __init__(
        self,
        parts: Parts,
        store: RunStore,
        options: Options,
        position: Position,
        guard: RunGuard,
        watchers: Sequence[Feature] = (),
    ) -> None:
        self.parts = parts
        self.store = store
        self.options = options
        self.position = position
        self.recipe: Recipe = parts.recipe
        self._guard = guard
        self._latest = LatestEvaluation()
        self._watchers = watchers
        keep_secret(argv_secrets(options.command))
        parts.full_budget = options.full_budget
        self._tracker = make_tracker(options.trackers, store.paths)
        parts.trackers = tuple(self._tracker.describe())
        self.fingerprint = run_fingerprint(parts)
        parts.histogram_schedule.rule = histogram_rule(parts, position.clock)
        self.summary = summarize_run(parts, [*options.notes, *position.notes], position.clock)

    def run(self, films: FilmsAtEnd | None = None) -> Result:
        """Train until something ends the run. One that fails has a final status and a report too."""
        try:
            return self._train(films)
        except Exception as error:
            with suppress(OSError, GymlabError):  # such as a full disk: the error itself is raised
                if self.store.fail(disk_fault(error, self.store.paths) or error):
                    make_report(self.parts, self.store).write()
            raise

    def _train(self, films: FilmsAtEnd | None) -> Result:
        if films is not None and self.parts.trackers:
            films = films._replace(leave=False)  # films are part of the copy that a tracker gets
        paths = self.store.paths
        position = self.position
        self._guard.paths = paths
        with (
            LogFile(paths.log, self._opening()) as log_file,
            self._tracker as tracker,  # closed after the writer, whose last rows it sends
            MetricsWriter(paths.metrics) as writer,
            evaluation_features(
                self.parts, position.state, position.clock, paths, self.options.evaluator_cores
            ) as evaluation,
            make_video(
                self.recipe,
                paths,
                tracker.media,
                films,
                vmap_size=self.parts.vmap_size,
                of_group=self.options.group is not None,
            ) as video,
        ):
            last = self.parts.plan.last_update(position.clock)
            record = Record(writer, updates_per_row(self.recipe.metrics, last), last)
            features = [
                *run_features(self.parts, self.store, record, self._latest),
                *self._watchers,
                *evaluation,
                log_file,
                RemoteControl(paths),
                tracker,
                video,
            ]
            restore_features(features, position.features)
            totals = RunTotals()
            totals.restore(position.features)
            loop = Loop(self.parts.program, self.parts.plan, features, self._barrier(record, totals), totals)
            with watch_signals(loop.interrupt) as interrupts:
                self.store.start()
                with describe_failures(self.parts, paths):
                    outcome = loop.run(position.state, position.clock, resumed=position.resumed)
        exit_code = interrupts.exit_code if outcome.status == "stopped" else 0
        return self._result(outcome, exit_code, video.left)

    def _opening(self) -> list[str]:
        header, *notes = self.summary.lines()
        return [
            f"gymlab {versions()['gymlab']}, {Owner.me()}: {header}",
            f"command: {shlex.join(redact_argv(self.options.command))}",
            *notes,
        ]

    def write_manifest(self, forked_from: str | None = None) -> None:
        """Write the manifest and the recipe, before the first update."""
        recipe = self.recipe
        options = self.options
        assert self.parts.stacks is not None, "env objects have no id: they cannot be in a run folder"
        manifest = build_manifest(
            command=options.command,
            seed=options.seed,
            recipe=recipe.name,
            env=env_description(recipe.env, self.parts.stacks, self.parts.spaces.max_episode_steps),
            engine=self.parts.chosen._asdict(),
            references={text: reference_hash(text, None) for text in references(recipe)},
            fingerprint=self.fingerprint,
        )
        more = {
            "algorithm": recipe.algorithm.name,
            "evaluation": core_sharing(recipe),
            "solved_at": recipe.env.solved_at,
            "solved_at_source": options.solved_at_source,
            "tags": list(options.tags),
            "group": options.group,
            "note": options.note,
            "notes": list(options.notes),
            "checkpoint_clock": recipe.budget.clock,
            "full_budget": options.full_budget,
            "forked_from": forked_from,
            "registered": foreign_registration_json(recipe.env.id),
            "changes": [list(change) for change in options.changes],
        }
        known = cast("ManifestRecord", {key: value for key, value in more.items() if value not in (None, [])})
        self.store.write_manifest(manifest | known)
        self.store.write_recipe(dump_redacted_recipe(recipe))

    def _barrier(self, record: Record, totals: RunTotals) -> Barrier:
        horizon = self.position.horizon or self.recipe.budget

        named_by = checkpoint_clock(self.store.paths)

        def barrier(
            state: TrainState, clock: Clock, features: dict[str, FeatureState], kinds: tuple[CheckpointKind, ...]
        ) -> Checkpointed:
            began = time.perf_counter()
            record.commit()
            if sums := totals.state():
                features = {**features, totals.name: sums}
            info: CheckpointInfo = {
                "recipe": self.recipe.name,
                "seed": self.options.seed,
                "clock": clock.as_json(),
                "features": features,
                "stateful": sorted(features),
                "horizon": str(horizon),
                "fingerprint": self.fingerprint,
                "metrics": reproducible(record.last()) if clock.updates else {},
            }
            path = save_checkpoint(
                self.store.paths,
                step=clock.at(named_by),
                policy=to_tensors(self.parts.agent.policy(state)),
                state=require_no_nan(self.parts.program.save(state)),
                info=info,
                kinds=set(kinds),
                keep=self.recipe.checkpoints.keep,
            )
            size = sum(file.stat().st_size for file in path.iterdir())
            return Checkpointed(clock, path, kinds, time.perf_counter() - began, size)

        return barrier

    def _result(self, outcome: TrainOutcome, exit_code: int, films_left: int) -> Result:
        index = read_index(self.store.paths)
        return Result(
            run_id=self.store.run_id,
            run_dir=self.store.paths.root,
            status=outcome.status,
            stop_reason=outcome.reason,
            clock=outcome.clock,
            solved=self._latest.solved(self.recipe.env.solved_at, self.recipe.stop.solved_by),
            evaluated=self._latest.evaluated,
            checkpoint=index.get("best") or index.get("last"),
            exit_code=exit_code,
            films_left=films_left,
        )


def run_fingerprint(parts: Parts) -> dict[str, Json]:
    """What must be equal for a run to be resumed exactly: versions, device, engine."""
    vmapped = {"vmapped": parts.vmap_size} if parts.vmap_size > 1 else {}
    return fingerprint(device=parts.chosen.device, engine=parts.chosen.engine, **vmapped)


def required_space(parts: Parts, position: Position) -> Room:
    """The disk space a run needs from this position on."""
    state = position.state
    tensors = [*to_tensors(parts.agent.policy(state)).values(), *parts.program.save(state).values()]
    checkpoint = sum(tensor.nbytes for tensor in tensors)
    action = parts.spaces.action
    if parts.chosen.engine != "jax":  # host envs are restored by replaying the actions of an episode
        steps = parts.recipe.n_envs * parts.spaces.max_episode_steps
        checkpoint += steps * math.prod(leaf_shape(action)) * np.dtype(action.dtype).itemsize
    per_row = updates_per_row(parts.recipe.metrics, parts.plan.last_update(position.clock))
    rows = math.ceil(parts.plan.left(position.clock) / per_row)
    return Room(checkpoint, parts.recipe.checkpoints.keep, rows)


def _checkpoint_bytes(paths: RunPaths) -> int:
    return sum(file.stat().st_size for file in paths.checkpoints.rglob("*") if file.is_file())
