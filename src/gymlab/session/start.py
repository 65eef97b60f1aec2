"""Starts a run (`train`) and continues one (`resume`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from gymlab.core.clock import Clock
from gymlab.core.errors import RunError
from gymlab.recipes.overrides import diff_recipes
from gymlab.recipes.resolve import amend, read_run_recipe
from gymlab.recipes.schema import Budget, Recipe, Steps
from gymlab.recipes.secrets import dump_redacted_recipe, redact_changes
from gymlab.runs.checkpoints import Loaded, cut_after, load_checkpoint, read_index, steps
from gymlab.runs.disk_space import Room, check_room, translate_disk_errors
from gymlab.runs.manifest import compare_fingerprint, read_manifest
from gymlab.runs.metrics_db import copy_metrics
from gymlab.runs.paths import RunPaths
from gymlab.runs.status import read_status
from gymlab.runs.store import RunStore
from gymlab.session.build import Parts, build, updates_per_row
from gymlab.session.result import Result
from gymlab.session.session import Options, Session, Start
from gymlab.session.signals import open_store
from gymlab.trackers.assemble import Trackers
from gymlab.training.events import Feature
from gymlab.training.named_tensors import Tensors, from_tensors, to_tensors
from gymlab.training.state import TrainState

# Blocks of a recipe that do not affect what is learnt.
_NOT_LEARNING = ("budget", "stop", "eval", "checkpoints", "video", "metrics", "alerts")
# Entries of a checkpoint's info; `stateful` names the features with a state, to notice a missing one.
_REQUIRED_INFO = ("recipe", "seed", "clock", "features", "stateful", "horizon", "fingerprint", "metrics")
Announce = Callable[[Parts, list[str]], None]  # called once everything is ready, with the notes
Make = Callable[..., Parts]  # (recipe, seed, horizon=None): `build` or a wrapper of it


def train(
    recipe: Recipe,
    options: Options,
    runs_root: Path,
    *,
    watchers: Sequence[Feature] = (),
    announce: Announce = lambda *_: None,
    init_from: tuple[RunPaths, str] | None = None,
    make: Make = build,
) -> Result:
    """Train a new run, from scratch or from another run's policy. If it cannot start its folder is removed.

    `make` builds the parts; executors pass one that shares compiled parts between runs.
    """
    parts = make(recipe, options.seed)
    try:
        notes = list(parts.notes)
        state = parts.program.start(options.seed, ahead=True)
        check_room(runs_root, required_space(parts, state))
        with (
            translate_disk_errors(),
            open_store(lambda: RunStore.create(runs_root, options.run_id, name=recipe.name)) as store,
        ):
            session = Session(parts, store, options, watchers)
            session.write_manifest()
            if init_from is not None:
                loaded = load_checkpoint(*init_from)
                state = with_policy(parts, state, loaded.policy)
                notes.append(f"policy taken from {init_from[0].run_id}/{loaded.path.name}")
            announce(parts, notes)
            return session.run(state, Start(notes=tuple(notes)))
    finally:
        parts.program.close()


@dataclass(frozen=True)
class Continuation:
    """How to continue a run."""

    which: str = "last"
    overrides: tuple[str, ...] = ()
    budget: str | None = None
    optimizer: bool = True
    full_budget: bool = False
    reschedule: bool = False
    run_id: str | None = None  # of the fork, where there is one
    command: tuple[str, ...] = ()
    trackers: Trackers = field(default_factory=Trackers)  # in addition to those of the run
    evaluator_cores: tuple[int, ...] | None = None


class NothingToDo(Exception):
    """The run has finished; the message says how to extend it."""


def resume(
    paths: RunPaths,
    how: Continuation,
    *,
    watchers: Sequence[Feature] = (),
    announce: Announce = lambda *_: None,
    make: Make = build,
) -> Result:
    """Continue the run from its last checkpoint, or fork a new run from an earlier one."""
    manifest = read_manifest(paths)
    before = read_run_recipe(paths.recipe)
    recipe = amend(before, how.overrides, budget=how.budget)
    changes = tuple(redact_changes(diff_recipes(before, recipe)))
    if not changes and not how.full_budget:
        _refuse_finished(paths, how.which)
    options = Options(
        seed=manifest["seed"],
        full_budget=how.full_budget or manifest.get("full_budget", False),
        tags=tuple(manifest.get("tags", ())),
        group=manifest.get("group"),
        note=manifest.get("note"),
        command=how.command,
        changes=changes,
        trackers=how.trackers,
        evaluator_cores=how.evaluator_cores,
    )
    fork = how.which not in ("last", read_index(paths).get("last"))

    def make_store() -> RunStore:
        return RunStore.create(paths.root.parent, how.run_id, name=recipe.name) if fork else RunStore.open(paths)

    with translate_disk_errors(), open_store(make_store) as store:
        if not steps(paths):
            return _restart(store, recipe, options, watchers, announce, make)
        loaded = load_checkpoint(paths, how.which)
        _require_complete(loaded.info)
        horizon = _horizon(loaded, recipe, how)
        parts = make(recipe, options.seed, horizon=horizon)
        try:
            if fork:
                options = replace(options, forked_from=f"{paths.run_id}/{loaded.path.name}")
            session = Session(parts, store, options, watchers)
            state, reasons = _load(parts, loaded, options.seed, optimizer=how.optimizer)
            check_room(paths.root.parent, required_space(parts, state), held=0 if fork else _checkpoint_bytes(paths))
            reasons += compare_fingerprint(loaded.info["fingerprint"], session.fingerprint)
            clock = Clock(**loaded.info["clock"])
            if fork:
                session.write_manifest()
                copy_metrics(paths.metrics, store.paths.metrics)
            else:
                cut_after(paths, clock.env_steps)
                _note_session(store, recipe if changes else None, manifest, clock, changes, reasons)
            notes = [
                *loaded.notes,
                *_resume_notes(clock, changes, reasons),
                *_schedule_notes(recipe, horizon),
                *parts.notes,
            ]
            announce(parts, notes)
            start = Start(clock, loaded.info["features"], horizon, resumed=not fork, notes=tuple(notes))
            return session.run(state, start)
        finally:
            parts.program.close()


def _restart(
    store: RunStore,
    recipe: Recipe,
    options: Options,
    watchers: Sequence[Feature],
    announce: Announce,
    make: Make,
) -> Result:
    """Train a run that was killed before its first checkpoint from its seed."""
    parts = make(recipe, options.seed)
    try:
        notes = ["the run has no checkpoint yet: it begins again at its seed", *parts.notes]
        session = Session(parts, store, options, watchers)
        announce(parts, notes)
        return session.run(parts.program.start(options.seed, ahead=True), Start(notes=tuple(notes)))
    finally:
        parts.program.close()


def _require_complete(info: Mapping[str, Any]) -> None:
    """RunError if a checkpoint lacks information that resuming needs."""
    missing = [name for name in _REQUIRED_INFO if name not in info]
    missing += [f"clock.{name}" for name in Clock._fields if name not in info.get("clock", Clock._fields)]
    missing += [f"features.{name}" for name in info.get("stateful", ()) if name not in info.get("features", ())]
    if missing:
        raise RunError(f"the checkpoint lacks {', '.join(missing)}: it cannot be resumed")


def required_space(parts: Parts, state: TrainState) -> Room:
    """The disk space a run needs from this state on."""
    tensors = [*to_tensors(parts.agent.policy(state)).values(), *parts.program.save(state).values()]
    checkpoint = sum(tensor.nbytes for tensor in tensors)
    action = parts.spaces.action
    if parts.chosen.engine != "jax":  # host envs are restored by replaying the actions of an episode
        steps = parts.recipe.n_envs * parts.spaces.max_episode_steps
        checkpoint += steps * math.prod(action.shape) * action.dtype.itemsize
    rows = math.ceil(parts.plan.updates / updates_per_row(parts.recipe.metrics, parts.plan.updates))
    return Room(checkpoint, parts.recipe.checkpoints.keep, rows)


def _checkpoint_bytes(paths: RunPaths) -> int:
    return sum(file.stat().st_size for file in paths.checkpoints.rglob("*") if file.is_file())


def with_policy(parts: Parts, state: TrainState, tensors: Tensors) -> TrainState:
    """The state with another run's weights and normaliser statistics."""
    policy = from_tensors(parts.agent.policy(state), tensors)
    algorithm = parts.agent.algorithm.with_weights(state.algorithm, policy.weights)
    return state._replace(algorithm=algorithm, normaliser=policy.normaliser)


def _load(parts: Parts, loaded: Loaded, seed: int, *, optimizer: bool) -> tuple[TrainState, list[str]]:
    initial = parts.program.start(seed, ahead=True)
    state, reasons = parts.program.load(initial, loaded.state)
    if not optimizer:
        algorithm = parts.agent.algorithm
        state = state._replace(algorithm=algorithm.with_weights(initial.algorithm, algorithm.weights(state.algorithm)))
        reasons = [*reasons, "the optimiser starts anew (--no-optimizer)"]
    return state, reasons


def _horizon(loaded: Loaded, recipe: Recipe, how: Continuation) -> Steps:
    """Where schedules end: as before, so that a longer budget does not change them, unless `reschedule`."""
    return recipe.budget if how.reschedule else TypeAdapter(Budget).validate_python(loaded.info["horizon"])


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


def _resume_notes(clock: Clock, changes: Sequence[tuple[str, Any, Any]], reasons: list[str]) -> list[str]:
    how = "not exact" if reasons or any(_affects_learning(path) for path, _, _ in changes) else "exact"
    lines = [f"resumed ({how}) at {clock.env_steps} env_steps, update {clock.updates}"]
    lines += [f"changed {path}: {old} -> {new}" for path, old, new in changes]
    return lines + [f"not exact: {reason}" for reason in reasons]


def _affects_learning(path: str) -> bool:
    """Whether a setting changes what is learnt; a longer budget or another cadence does not."""
    return path.split(".", maxsplit=1)[0] not in _NOT_LEARNING


def _note_session(
    store: RunStore, recipe: Recipe | None, manifest: dict[str, Any], clock: Clock, changes: Any, reasons: list[str]
) -> None:
    """Add this session to the manifest, and the changed recipe to the run."""
    record = {
        "resumed_at": clock.env_steps,
        "exact": not reasons and not any(_affects_learning(path) for path, _, _ in changes),
        "reasons": reasons,
        "changes": [list(change) for change in changes],
    }
    store.write_manifest(manifest | {"sessions": [*manifest.get("sessions", []), record]})
    if recipe is not None:
        store.write_recipe(dump_redacted_recipe(recipe))
