"""One training session: a new run, or an old one continued, from its first line to its last checkpoint."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gymlab.core.clock import Clock
from gymlab.envs.references import reference_hash
from gymlab.envs.registry import foreign_registration_json
from gymlab.features.console import first_line
from gymlab.features.logfile import LogFile
from gymlab.features.machine_metrics import Measure
from gymlab.features.record import Record
from gymlab.features.remote_control import Steering, StopRequest
from gymlab.features.report import Report
from gymlab.features.score import Score
from gymlab.features.skipped_updates import Skips
from gymlab.features.status import StatusFile
from gymlab.recipes.keys import default_settings, flat_settings
from gymlab.recipes.schema import Recipe, Steps
from gymlab.recipes.secrets import dump_redacted_recipe
from gymlab.reports.report import context_of
from gymlab.runs.checkpoints import read_index, save_checkpoint
from gymlab.runs.disk_space import translate_disk_errors
from gymlab.runs.locks import Owner
from gymlab.runs.manifest import build_manifest, fingerprint, versions
from gymlab.runs.metrics_writer import MetricsWriter
from gymlab.runs.redact import argv_secrets, keep_secret, redact_argv
from gymlab.runs.store import RunStore
from gymlab.session.alert_features import make_alerts
from gymlab.session.build import Parts
from gymlab.session.checkpoint_check import restore_features
from gymlab.session.choose_engine import env_description
from gymlab.session.evaluation_features import judging, sharing
from gymlab.session.extensions import make_feature, references
from gymlab.session.failures import failure_told, sound_tensors
from gymlab.session.metric_schedule import updates_per_row
from gymlab.session.result import Latest, Result
from gymlab.session.signals import watch_signals
from gymlab.session.video import make_video
from gymlab.trackers.assemble import Trackers, make_tracker
from gymlab.training.events import Checkpointed, CheckpointKind, Feature
from gymlab.training.loop import Barrier, Loop, TrainOutcome
from gymlab.training.named_tensors import to_tensors
from gymlab.training.state import TrainState


@dataclass(frozen=True)
class Options:
    """What a session is told beside its recipe."""

    seed: int = 0
    run_id: str | None = None
    full_budget: bool = False
    tags: tuple[str, ...] = ()
    group: str | None = None
    note: str | None = None
    command: tuple[str, ...] = field(default_factory=lambda: tuple(sys.argv))
    forked_from: str | None = None
    solved_at_source: str | None = None
    notes: tuple[str, ...] = ()  # how the recipe came about
    changes: tuple[tuple[str, Any, Any], ...] = ()
    trackers: Trackers = field(default_factory=Trackers)
    evaluator_cores: tuple[int, ...] | None = None  # where this process may use fewer than its runs are to tell


@dataclass(frozen=True)
class Start:
    """Where a session begins. The default is the beginning."""

    clock: Clock = field(default_factory=Clock)
    features: dict[str, dict[str, Any]] = field(default_factory=dict)
    horizon: Steps | None = None
    resumed: bool = False
    notes: tuple[str, ...] = ()  # for the log


class Session:
    """A run directory, the parts of a run, and the features that tie them together."""

    def __init__(self, parts: Parts, store: RunStore, options: Options, watchers: Sequence[Feature] = ()) -> None:
        self.parts = parts
        self.store = store
        self.options = options
        self.recipe: Recipe = parts.recipe
        self._latest = Latest()
        self._watchers = watchers
        keep_secret(argv_secrets(options.command))
        parts.full_budget = options.full_budget
        self._tracker = make_tracker(options.trackers, store.paths)
        parts.trackers = tuple(self._tracker.describe())
        vmapped = {"vmapped": parts.together} if parts.together > 1 else {}
        self.fingerprint = fingerprint(device=parts.chosen.device, engine=parts.chosen.engine, **vmapped)

    def run(self, state: TrainState, start: Start) -> Result:
        """Train from `state` until something ends the run."""
        with translate_disk_errors(self.store.paths):
            return self._run(state, start)

    def _run(self, state: TrainState, start: Start) -> Result:
        paths = self.store.paths
        with (
            LogFile(paths.log, self._opening(start)) as log_file,
            self._tracker as tracker,  # left after the writer, whose last rows it sends
            MetricsWriter(paths.metrics) as writer,
            judging(self.parts, state, paths, self.options.evaluator_cores) as judges,
            make_video(
                self.recipe, paths, tracker.media, together=self.parts.together, of_group=self.options.group is not None
            ) as video,
        ):
            updates = self.parts.plan.updates
            record = Record(writer, updates_per_row(self.recipe.metrics, updates), updates)
            features = [*self._features(record), *judges, log_file, StopRequest(paths), Steering(paths), tracker, video]
            restore_features(features, start.features)
            barrier = self._barrier(record, start.horizon or self.recipe.budget)
            loop = Loop(self.parts.program, self.parts.plan, features, barrier)
            loop.restore(start.features.get("loop", {}))
            with watch_signals(loop.interrupt) as interrupts:
                self.store.start()
                with failure_told(self.parts, paths):
                    outcome = loop.run(state, start.clock, resumed=start.resumed)
        return self._result(outcome, interrupts.exit_code if outcome.status == "stopped" else 0)

    def _opening(self, start: Start) -> list[str]:
        return [
            f"gymlab {versions()['gymlab']}, {Owner.me()}: {first_line(self.parts)}",
            f"command: {shlex.join(redact_argv(self.options.command))}",
            *(f"note: {note}" for note in (*self.options.notes, *start.notes)),
        ]

    def write_manifest(self) -> None:
        """Everything needed to know what this run was; written before its first update."""
        recipe = self.recipe
        options = self.options
        assert self.parts.stacks is not None, "a run is made of a recipe, which names its env"
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
            "evaluation": sharing(recipe),
            "solved_at": recipe.env.solved_at,
            "solved_at_source": options.solved_at_source,
            "tags": list(options.tags),
            "group": options.group,
            "note": options.note,
            "notes": list(options.notes),
            "full_budget": options.full_budget,
            "forked_from": options.forked_from,
            "registered": foreign_registration_json(recipe.env.id),
            "changes": [list(change) for change in options.changes],
        }
        self.store.write_manifest(manifest | {key: value for key, value in more.items() if value not in (None, [])})
        self.store.write_recipe(dump_redacted_recipe(recipe))

    def _features(self, record: Record) -> list[Feature]:
        recipe = self.recipe
        parts = self.parts
        return [
            Measure(parts.looks, parts.program.most, parts.compiled),
            record,
            Score(recipe.env.solved_at, recipe.stop.solved_by, parts.budget_env_steps),
            self._latest,
            StatusFile(self.store, recipe.env.solved_at, recipe.stop.solved_by),
            Skips(),
            make_alerts(parts, self.store.paths),
            self._report(),
            *(make_feature(part) for part in recipe.features),
            *self._watchers,
        ]

    def _barrier(self, record: Record, horizon: Steps) -> Barrier:
        def barrier(
            state: TrainState, clock: Clock, features: dict[str, dict[str, Any]], kinds: tuple[CheckpointKind, ...]
        ) -> Checkpointed:
            began = time.perf_counter()
            record.commit()
            info = {
                "recipe": self.recipe.name,
                "seed": self.options.seed,
                "clock": clock._asdict(),
                "features": features,
                "stateful": sorted(features),
                "horizon": str(horizon),
                "fingerprint": self.fingerprint,
                "metrics": _told(record.last()) if clock.updates else {},
            }
            path = save_checkpoint(
                self.store.paths,
                env_steps=clock.env_steps,
                policy=to_tensors(self.parts.agent.policy(state)),
                state=sound_tensors(self.parts.program.save(state)),
                info=info,
                kinds=set(kinds),
                keep=self.recipe.checkpoints.keep,
            )
            size = sum(file.stat().st_size for file in path.iterdir())
            return Checkpointed(clock, path, kinds, time.perf_counter() - began, size)

        return barrier

    def _result(self, outcome: TrainOutcome, exit_code: int) -> Result:
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
        )

    def _report(self) -> Report:
        settings = flat_settings(self.recipe)
        spaces = self.parts.spaces
        context = context_of(settings, spaces.action, spaces.observation, spaces.max_episode_steps)
        return Report(self.store, settings, default_settings(settings, of_algorithm=True), context)


def _told(row: dict[str, float]) -> dict[str, float]:
    """A row without what differs from machine to machine."""
    return {name: value for name, value in row.items() if not name.startswith(("time/", "sys/")) and name != "seconds"}
