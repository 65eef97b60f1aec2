"""One training session: a new run, or an old one continued, from its first line to its last checkpoint."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gymlab.core.clock import Clock
from gymlab.envs.references import reference_hash
from gymlab.experiment.build import Parts, env_description
from gymlab.experiment.extensions import make_feature, references
from gymlab.experiment.signals import watch_signals
from gymlab.features.checkpoint import Checkpoint
from gymlab.features.evaluate import Evaluate
from gymlab.features.measure import Measure
from gymlab.features.record import Record
from gymlab.features.status import StatusFile
from gymlab.features.stop import Stop
from gymlab.recipes.dump import dump_recipe
from gymlab.recipes.schema import Recipe, Steps
from gymlab.runs.checkpoints import read_index, save_checkpoint
from gymlab.runs.manifest import build_manifest, fingerprint
from gymlab.runs.metrics import MetricsReader, MetricsWriter
from gymlab.runs.store import RunStore
from gymlab.training.events import Checkpointed, CheckpointKind, Control, Evaluated, Event, Feature
from gymlab.training.loop import Barrier, Loop, Outcome
from gymlab.training.state import TrainState
from gymlab.training.tensors import to_tensors


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
    changes: tuple[tuple[str, Any, Any], ...] = ()


@dataclass(frozen=True)
class Start:
    """Where a session begins. The default is the beginning."""

    clock: Clock = field(default_factory=Clock)
    features: dict[str, dict[str, Any]] = field(default_factory=dict)
    horizon: Steps | None = None
    resumed: bool = False


class Latest(Feature):
    """Remembers the last evaluation, for the result."""

    name = "latest"
    evaluated: Evaluated | None = None

    def __call__(self, event: Event, control: Control) -> None:
        del control
        if isinstance(event, Evaluated):
            self.evaluated = event


@dataclass(frozen=True)
class Result:
    """How a session ended: what `--json` prints."""

    run_id: str
    run_dir: Path
    status: str
    stop_reason: str
    clock: Clock
    solved: bool | None
    evaluation: Any
    checkpoint: str | None
    exit_code: int

    def summary(self) -> list[str]:
        """What was reached and what to do next, for people."""
        lines = [
            f"{self.status}: {self.stop_reason} after {self.clock.env_steps} env_steps "
            f"({self.clock.vec_steps} vec_steps, {self.clock.updates} updates) in {self.clock.seconds:.1f} s"
        ]
        if self.evaluation is not None:
            greedy, sampled = self.evaluation.greedy, self.evaluation.sampled
            verdict = {True: "solved", False: "not solved", None: "no threshold"}[self.solved]
            lines.append(
                f"{verdict}: greedy {greedy.mean:.2f} ± {greedy.std:.2f}, "
                f"sampled {sampled.mean:.2f} ± {sampled.std:.2f} over {greedy.n} Gymnasium episodes each"
            )
        lines.append(f"run: {self.run_dir}")
        again = f"gymlab resume {self.run_id}" if self.status == "stopped" else f"gymlab eval {self.run_id}"
        return [*lines, f"next: {again}"]

    def as_json(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "run_dir": str(self.run_dir),
            "status": self.status,
            "stop_reason": self.stop_reason,
            "env_steps": self.clock.env_steps,
            "vec_steps": self.clock.vec_steps,
            "updates": self.clock.updates,
            "seconds": round(self.clock.seconds, 3),
            "solved": self.solved,
            "eval": self.evaluation and self.evaluation.as_json(),
            "checkpoint": self.checkpoint,
        }


class Session:
    """A run directory, the parts of a run, and the features that tie them together."""

    def __init__(self, parts: Parts, store: RunStore, options: Options, watchers: Sequence[Feature] = ()) -> None:
        self.parts, self.store, self.options = parts, store, options
        self.recipe: Recipe = parts.recipe
        self._latest, self._watchers = Latest(), watchers
        self.fingerprint = fingerprint(device=parts.chosen.device, engine=parts.chosen.engine)

    def run(self, state: TrainState, start: Start) -> Result:
        """Train from `state` until something ends the run."""
        with MetricsWriter(self.store.paths.metrics) as writer:
            record = Record(writer)
            features = self._features(record)
            for feature in features:
                if feature.name in start.features:
                    feature.restore(start.features[feature.name])
            barrier = self._barrier(record, start.horizon or self.recipe.budget)
            loop = Loop(self.parts.program, self.parts.plan, features, barrier)
            self.store.start()
            with watch_signals(loop.interrupt) as interrupts:
                outcome = loop.run(state, start.clock, resumed=start.resumed)
        return self._result(outcome, interrupts.exit_code or 0)

    def write_manifest(self) -> None:
        """Everything needed to know what this run was; written before its first update."""
        recipe, options = self.recipe, self.options
        manifest = build_manifest(
            command=options.command,
            seed=options.seed,
            recipe=recipe.name,
            env=env_description(recipe.env),
            engine=self.parts.chosen._asdict(),
            references={text: reference_hash(text, None) for text in references(recipe)},
            fingerprint=self.fingerprint,
        )
        more = {
            "algorithm": recipe.algorithm.name,
            "solved_at": recipe.env.solved_at,
            "tags": list(options.tags),
            "group": options.group,
            "note": options.note,
            "full_budget": options.full_budget,
            "forked_from": options.forked_from,
            "changes": [list(change) for change in options.changes],
        }
        self.store.write_manifest(manifest | {key: value for key, value in more.items() if value not in (None, [])})
        self.store.write_recipe(dump_recipe(recipe))

    def _features(self, record: Record) -> list[Feature]:
        recipe, parts = self.recipe, self.parts
        wanted = recipe.stop.eval_return if recipe.stop.eval_return is not None else recipe.env.solved_at
        period = parts.period(recipe.eval.every, recipe.eval.warmup)
        last = parts.plan.updates
        return [
            Measure(),
            record,
            self._latest,
            Evaluate(parts.evaluate, period, seed=recipe.eval.seed, last_update=last),
            Checkpoint(parts.period(recipe.checkpoints.every), recipe.stop.solved_by),
            Stop(
                None if self.options.full_budget else wanted,
                None if self.options.full_budget else recipe.stop.train_return,
                recipe.stop.solved_by,
            ),
            StatusFile(self.store, recipe.env.solved_at, recipe.stop.solved_by),
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
                "horizon": str(horizon),
                "fingerprint": self.fingerprint,
                "metrics": self._row(clock.updates),
            }
            path = save_checkpoint(
                self.store.paths,
                env_steps=clock.env_steps,
                policy=to_tensors(self.parts.agent.policy(state)),
                state=self.parts.program.save(state),
                info=info,
                kinds=set(kinds),
                keep=self.recipe.checkpoints.keep,
            )
            size = sum(file.stat().st_size for file in path.iterdir())
            return Checkpointed(clock, path, kinds, time.perf_counter() - began, size)

        return barrier

    def _row(self, update: int) -> dict[str, float]:
        """The store's row at a checkpoint, without what differs from machine to machine."""
        if update == 0:
            return {}
        with MetricsReader(self.store.paths.metrics) as reader:
            row = reader.row(update)
        return {
            name: value for name, value in row.items() if not name.startswith(("time/", "sys/")) and name != "seconds"
        }

    def _result(self, outcome: Outcome, exit_code: int) -> Result:
        evaluated = self._latest.evaluated
        threshold = self.recipe.env.solved_at
        solved = None
        if threshold is not None and evaluated is not None:
            solved = evaluated.evaluation.judged_by(self.recipe.stop.solved_by) >= threshold
        best = read_index(self.store.paths).get("best")
        return Result(
            run_id=self.store.run_id,
            run_dir=self.store.paths.root,
            status=outcome.status,
            stop_reason=outcome.reason,
            clock=outcome.clock,
            solved=solved,
            evaluation=evaluated and evaluated.evaluation,
            checkpoint=best or read_index(self.store.paths).get("last"),
            exit_code=exit_code,
        )
