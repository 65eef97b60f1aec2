"""The kinds of start of a run: new, resumed from a checkpoint, or begun again because it has none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from pydantic import TypeAdapter

from gymlab.core.clock import Clock
from gymlab.core.errors import RunError, UserError
from gymlab.core.types import Json
from gymlab.recipes.overrides import diff_recipes
from gymlab.recipes.resolve import amend, read_run_recipe
from gymlab.recipes.schema import Budget, Recipe, Steps
from gymlab.recipes.secrets import dump_redacted_recipe, redact_changes
from gymlab.runs.checkpoints import cut_after, load_checkpoint, read_index, steps
from gymlab.runs.manifest import compare_fingerprint, read_manifest
from gymlab.runs.metrics_db import copy_metrics
from gymlab.runs.paths import RunPaths
from gymlab.runs.records import CheckpointInfo
from gymlab.runs.status import read_status
from gymlab.runs.store import RunStore
from gymlab.session.build import Parts, build
from gymlab.session.result import Result
from gymlab.session.resume_changes import (
    Changes,
    affects_learning,
    new_limits,
    policy_differences,
    refuse_fixed,
    refuse_other_engine,
    refusing_by_setting,
)
from gymlab.session.run_guard import RunGuard
from gymlab.session.session import Announce, Make, Options, Position, Session, Start, prepare, run_fingerprint
from gymlab.trackers.assemble import Trackers
from gymlab.training.events import Feature
from gymlab.training.named_tensors import Tensors, from_tensors
from gymlab.training.state import TrainState

# Entries of a checkpoint's info; `stateful` names the features with a state, to notice a missing one.
_REQUIRED_INFO = ("recipe", "seed", "clock", "features", "stateful", "horizon", "fingerprint", "metrics")


@dataclass
class NewRun(Start):
    """Starts at the seed, or with the policy of another run's checkpoint. If it cannot start, its folder is removed."""

    runs_root: Path
    init_from: tuple[RunPaths, str] | None = None

    def position(self, parts: Parts, initial: TrainState) -> Position:
        if self.init_from is None:
            return Position(initial, notes=tuple(parts.notes))
        source, which = self.init_from
        loaded = load_checkpoint(source, which)
        before = read_run_recipe(source.recipe)
        try:
            state = with_policy(parts, initial, loaded.policy)
        except RunError as error:
            differing = policy_differences(before, parts.recipe, shape=True)
            if not differing:
                raise
            raise UserError(f"--init-from {source.run_id}: {'; '.join(differing)} has other weights") from error
        notes = [f"policy taken from {source.run_id}/{loaded.path.name}"]
        notes += [
            f"{change}: the policy acts differently from now on"
            for change in policy_differences(before, parts.recipe, shape=False)
        ]
        return Position(state, notes=(*parts.notes, *notes))

    def write(self, session: Session) -> None:
        session.write_manifest()


class _FromCheckpoint(Start):
    """Starts from a checkpoint. Schedules end where they did, unless the continuation stretches them."""

    def __init__(self, paths: RunPaths, how: Continuation, changes: Changes) -> None:
        self.runs_root = paths.root.parent
        self._paths = paths
        self._how = how
        self._changes = changes
        self._reasons: list[str] = []  # why the run does not continue exactly

    def _load(self, recipe: Recipe) -> None:
        self._loaded = load_checkpoint(self._paths, self._how.which)
        _require_complete(self._loaded.info)
        saved: Steps = TypeAdapter(Budget).validate_python(self._loaded.info["horizon"])
        self.horizon = recipe.budget if self._how.reschedule else saved

    def position(self, parts: Parts, initial: TrainState) -> Position:
        loaded = self._loaded
        run_id = self._paths.run_id
        refuse_other_engine(loaded.info["fingerprint"], parts.chosen.engine, self._changes, run_id)
        with refusing_by_setting(self._changes, run_id):
            state, reasons = parts.program.load(initial, loaded.state)
        if not self._how.optimizer:
            algorithm = parts.agent.algorithm
            weights = algorithm.weights(state.algorithm)
            state = state._replace(algorithm=algorithm.with_weights(initial.algorithm, weights))
            reasons = [*reasons, "the optimiser starts anew (--no-optimizer)"]
        self._reasons = [*reasons, *compare_fingerprint(loaded.info["fingerprint"], run_fingerprint(parts))]
        clock = Clock(**loaded.info["clock"])
        assert self.horizon is not None
        notes = (
            *loaded.notes,
            *_resume_notes(clock, self._changes, self._reasons),
            *_schedule_notes(parts.recipe, self.horizon),
            *parts.notes,
        )
        return Position(state, clock, loaded.info["features"], self.horizon, notes=notes)


class ForkedRun(_FromCheckpoint):
    """A new run that starts from an earlier checkpoint of another."""

    def claim(self, recipe: Recipe, guard: RunGuard) -> Start:
        del guard
        self._load(recipe)
        return self

    def write(self, session: Session) -> None:
        session.write_manifest(forked_from=f"{self._paths.run_id}/{self._loaded.path.name}")
        copy_metrics(self._paths.metrics, session.store.paths.metrics)


class ResumedRun(_FromCheckpoint):
    """A run that continues in its folder; begun again at its seed if it was killed before its first checkpoint."""

    def claim(self, recipe: Recipe, guard: RunGuard) -> Start:
        self.store = guard.open_store(partial(RunStore.open, self._paths))
        if not steps(self._paths):
            return RestartedRun(self.store)
        self._load(recipe)
        return self

    def position(self, parts: Parts, initial: TrainState) -> Position:
        return replace(super().position(parts, initial), resumed=True)

    def write(self, session: Session) -> None:
        clock = session.position.clock
        cut_after(self._paths, self._loaded.step)
        record: dict[str, Json] = {
            "resumed_at": clock.env_steps,
            "exact": not self._reasons and not any(affects_learning(path) for path, _, _ in self._changes),
            "reasons": self._reasons,
            "changes": [list(change) for change in self._changes],
        }
        manifest = read_manifest(self._paths)
        manifest["full_budget"] = session.options.full_budget
        session.store.write_manifest(manifest | {"sessions": [*manifest.get("sessions", []), record]})
        if self._changes:
            session.store.write_recipe(dump_redacted_recipe(session.recipe))


class RestartedRun(Start):
    """A run without a checkpoint, begun again at its seed in its folder."""

    def __init__(self, store: RunStore) -> None:
        self.runs_root = store.paths.root.parent
        self.store = store

    def position(self, parts: Parts, initial: TrainState) -> Position:
        return Position(initial, notes=("the run has no checkpoint yet: it begins again at its seed", *parts.notes))

    def write(self, session: Session) -> None:
        """The manifest and the recipe are those of the first attempt."""


@dataclass(frozen=True)
class Continuation:
    """How to continue a run."""

    which: str = "last"
    overrides: tuple[str, ...] = ()
    budget: str | None = None
    optimizer: bool = True
    full_budget: bool | None = None  # None: as the run was begun, until it gets a new limit
    reschedule: bool = False
    run_id: str | None = None  # of the fork, where there is one
    command: tuple[str, ...] = ()
    trackers: Trackers = field(default_factory=Trackers)  # in addition to those of the run
    evaluator_cores: tuple[int, ...] | None = None


class NothingToDo(Exception):
    """The run has finished; the message says how to extend it."""


def continue_run(paths: RunPaths, how: Continuation) -> tuple[Recipe, Options, Start]:
    """What `prepare` needs to resume the run from its last checkpoint, or to fork a new run from an earlier one."""
    manifest = read_manifest(paths)
    before = read_run_recipe(paths.recipe)
    recipe = amend(before, how.overrides, budget=how.budget)
    changes = tuple(redact_changes(diff_recipes(before, recipe)))
    refuse_fixed(changes, before.algorithm.name, paths.run_id)
    if not changes and not how.full_budget:
        _refuse_finished(paths, how.which)
    full_budget = manifest.get("full_budget", False) if how.full_budget is None else how.full_budget
    notes: list[str] = []
    if full_budget and how.full_budget is None and (limits := new_limits(changes)):
        full_budget = False
        notes.append(f"{', '.join(limits)} is set: the run may end before its budget (--full-budget no longer holds)")
    fork = how.which not in ("last", read_index(paths).get("last"))
    options = Options(
        seed=manifest["seed"],
        run_id=how.run_id if fork else None,
        full_budget=full_budget,
        notes=tuple(notes),
        tags=tuple(manifest.get("tags", ())),
        group=manifest.get("group"),
        note=manifest.get("note"),
        command=how.command,
        changes=changes,
        trackers=how.trackers,
        evaluator_cores=how.evaluator_cores,
    )
    return recipe, options, ForkedRun(paths, how, changes) if fork else ResumedRun(paths, how, changes)


def train(
    recipe: Recipe,
    options: Options,
    runs_root: Path,
    *,
    watchers: Sequence[Feature] = (),
    announce: Announce = lambda _: None,
    init_from: tuple[RunPaths, str] | None = None,
    make: Make = build,
) -> Result:
    """Prepare and train a new run."""
    start = NewRun(runs_root, init_from)
    with prepare(recipe, options, start, watchers=watchers, announce=announce, make=make) as session:
        return session.run()


def resume(
    paths: RunPaths,
    how: Continuation,
    *,
    watchers: Sequence[Feature] = (),
    announce: Announce = lambda _: None,
    make: Make = build,
) -> Result:
    """Prepare and continue a run."""
    with prepare(*continue_run(paths, how), watchers=watchers, announce=announce, make=make) as session:
        return session.run()


def _require_complete(info: CheckpointInfo) -> None:
    """RunError if a checkpoint lacks information that resuming needs."""
    missing = [name for name in _REQUIRED_INFO if name not in info]
    missing += [f"clock.{name}" for name in Clock._fields if name not in info.get("clock", Clock._fields)]
    missing += [f"features.{name}" for name in info.get("stateful", ()) if name not in info.get("features", ())]
    if missing:
        raise RunError(f"the checkpoint lacks {', '.join(missing)}: it cannot be resumed")


def with_policy(parts: Parts, state: TrainState, tensors: Tensors) -> TrainState:
    """The state with another run's weights and normaliser statistics."""
    policy = from_tensors(parts.agent.policy(state), tensors)
    algorithm = parts.agent.algorithm.with_weights(state.algorithm, policy.weights)
    return state._replace(algorithm=algorithm, normaliser=policy.normaliser)


def _refuse_finished(paths: RunPaths, which: str) -> None:
    status = read_status(paths)
    if status.get("status") != "finished" or which != "last":
        return
    steps = status.get("clock", {}).get("env_steps", 0)
    reached = str(status.get("stop_reason", "")).startswith(("solved", "train_return"))
    schedules = read_run_recipe(paths.recipe).algorithm.settings.schedules().values()
    stretch = " --reschedule" if any(schedule.varies for schedule in schedules) else ""
    hint = "--full-budget" if reached else f"--budget {2 * steps}{stretch}"
    raise NothingToDo(
        f"{paths.run_id} has finished ({status.get('stop_reason')}, {steps} env_steps): "
        f"extend it with `gymlab resume {paths.run_id} {hint}`"
    )


def _schedule_notes(recipe: Recipe, horizon: Steps) -> list[str]:
    """A note if the budget is beyond the schedules' end, where they keep their last value."""
    varying = [name for name, schedule in recipe.algorithm.settings.schedules().items() if schedule.varies]
    if not varying or horizon.clock != recipe.budget.clock or horizon.count >= recipe.budget.count:
        return []
    return [f"{', '.join(varying)}: schedules ended at {horizon} and stay there; --reschedule stretches them"]


def _resume_notes(clock: Clock, changes: Changes, reasons: list[str]) -> list[str]:
    how = "not exact" if reasons or any(affects_learning(path) for path, _, _ in changes) else "exact"
    lines = [f"resumed ({how}) at {clock.env_steps} env_steps, update {clock.updates}"]
    lines += [f"changed {path}: {old} -> {new}" for path, old, new in changes]
    return lines + [f"not exact: {reason}" for reason in reasons]
