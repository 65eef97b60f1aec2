"""Session: trains one run, new or resumed, in its run folder."""

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
from gymlab.features.record import Record
from gymlab.features.remote_control import RemoteControl
from gymlab.recipes.schema import Recipe, Steps
from gymlab.recipes.secrets import dump_redacted_recipe
from gymlab.runs.checkpoints import read_index, save_checkpoint
from gymlab.runs.disk_space import translate_disk_errors
from gymlab.runs.locks import Owner
from gymlab.runs.manifest import build_manifest, fingerprint, versions
from gymlab.runs.metrics_writer import MetricsWriter
from gymlab.runs.redact import argv_secrets, keep_secret, redact_argv
from gymlab.runs.store import RunStore
from gymlab.session.build import Parts, updates_per_row
from gymlab.session.choose_engine import env_description
from gymlab.session.evaluation_features import core_sharing, evaluation_features
from gymlab.session.failures import describe_failures, require_no_nan
from gymlab.session.result import LatestEvaluation, Result
from gymlab.session.run_features import make_video, references, restore_features, run_features
from gymlab.session.signals import watch_signals
from gymlab.trackers.assemble import Trackers, make_tracker
from gymlab.training.events import Checkpointed, CheckpointKind, Feature
from gymlab.training.loop import Barrier, Loop, TrainOutcome
from gymlab.training.named_tensors import to_tensors
from gymlab.training.state import TrainState


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
    forked_from: str | None = None
    solved_at_source: str | None = None
    notes: tuple[str, ...] = ()  # on how the recipe was resolved
    changes: tuple[tuple[str, Any, Any], ...] = ()
    trackers: Trackers = field(default_factory=Trackers)
    evaluator_cores: tuple[int, ...] | None = None  # if this process is pinned to fewer


@dataclass(frozen=True)
class Start:
    """Where a session starts: by default at the beginning."""

    clock: Clock = field(default_factory=Clock)
    features: dict[str, dict[str, Any]] = field(default_factory=dict)
    horizon: Steps | None = None
    resumed: bool = False
    notes: tuple[str, ...] = ()  # for the log


class Session:
    """A run folder, the parts of a run, and its features."""

    def __init__(self, parts: Parts, store: RunStore, options: Options, watchers: Sequence[Feature] = ()) -> None:
        self.parts = parts
        self.store = store
        self.options = options
        self.recipe: Recipe = parts.recipe
        self._latest = LatestEvaluation()
        self._watchers = watchers
        keep_secret(argv_secrets(options.command))
        parts.full_budget = options.full_budget
        self._tracker = make_tracker(options.trackers, store.paths)
        parts.trackers = tuple(self._tracker.describe())
        vmapped = {"vmapped": parts.vmap_size} if parts.vmap_size > 1 else {}
        self.fingerprint = fingerprint(device=parts.chosen.device, engine=parts.chosen.engine, **vmapped)

    def run(self, state: TrainState, start: Start) -> Result:
        """Train from `state` until something ends the run."""
        with translate_disk_errors(self.store.paths):
            return self._run(state, start)

    def _run(self, state: TrainState, start: Start) -> Result:
        paths = self.store.paths
        with (
            LogFile(paths.log, self._opening(start)) as log_file,
            self._tracker as tracker,  # closed after the writer, whose last rows it sends
            MetricsWriter(paths.metrics) as writer,
            evaluation_features(self.parts, state, paths, self.options.evaluator_cores) as evaluation,
            make_video(
                self.recipe,
                paths,
                tracker.media,
                vmap_size=self.parts.vmap_size,
                of_group=self.options.group is not None,
            ) as video,
        ):
            updates = self.parts.plan.updates
            record = Record(writer, updates_per_row(self.recipe.metrics, updates), updates)
            features = [
                *run_features(self.parts, self.store, record, self._latest),
                *self._watchers,
                *evaluation,
                log_file,
                RemoteControl(paths),
                tracker,
                video,
            ]
            restore_features(features, start.features)
            barrier = self._barrier(record, start.horizon or self.recipe.budget)
            loop = Loop(self.parts.program, self.parts.plan, features, barrier)
            loop.restore(start.features)
            with watch_signals(loop.interrupt) as interrupts:
                self.store.start()
                with describe_failures(self.parts, paths):
                    outcome = loop.run(state, start.clock, resumed=start.resumed)
        return self._result(outcome, interrupts.exit_code if outcome.status == "stopped" else 0)

    def _opening(self, start: Start) -> list[str]:
        return [
            f"gymlab {versions()['gymlab']}, {Owner.me()}: {first_line(self.parts)}",
            f"command: {shlex.join(redact_argv(self.options.command))}",
            *(f"note: {note}" for note in (*self.options.notes, *start.notes)),
        ]

    def write_manifest(self) -> None:
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
            "full_budget": options.full_budget,
            "forked_from": options.forked_from,
            "registered": foreign_registration_json(recipe.env.id),
            "changes": [list(change) for change in options.changes],
        }
        self.store.write_manifest(manifest | {key: value for key, value in more.items() if value not in (None, [])})
        self.store.write_recipe(dump_redacted_recipe(recipe))

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
                "metrics": _reproducible(record.last()) if clock.updates else {},
            }
            path = save_checkpoint(
                self.store.paths,
                env_steps=clock.env_steps,
                policy=to_tensors(self.parts.agent.policy(state)),
                state=require_no_nan(self.parts.program.save(state)),
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


def _reproducible(row: dict[str, float]) -> dict[str, float]:
    """A row without the metrics that differ between machines."""
    return {name: value for name, value in row.items() if not name.startswith(("time/", "sys/")) and name != "seconds"}
