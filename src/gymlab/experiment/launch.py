"""Starting a run, and going on with one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from gymlab.core.clock import Clock
from gymlab.experiment.build import Parts, build
from gymlab.experiment.session import Options, Result, Session, Start
from gymlab.recipes.load import amend, read_run_recipe
from gymlab.recipes.overrides import diff
from gymlab.recipes.schema import Budget, Recipe, Steps
from gymlab.runs.checkpoints import Loaded, cut_after, load_checkpoint, read_index
from gymlab.runs.manifest import compare_fingerprint, read_manifest
from gymlab.runs.metrics import copy_metrics
from gymlab.runs.paths import RunPaths
from gymlab.runs.status import read_status
from gymlab.runs.store import RunStore
from gymlab.training.events import Feature
from gymlab.training.state import TrainState
from gymlab.training.tensors import Tensors, from_tensors

Announce = Callable[[Parts, list[str]], None]  # told once everything is ready, with the notes


def train(
    recipe: Recipe,
    options: Options,
    runs_root: Path,
    *,
    watchers: Sequence[Feature] = (),
    announce: Announce = lambda *_: None,
    init_from: tuple[RunPaths, str] | None = None,
) -> Result:
    """A new run, from nothing or from another run's policy. If it cannot start it leaves nothing behind."""
    parts = build(recipe, options.seed)
    try:
        notes = list(parts.notes)
        with RunStore.create(runs_root, options.run_id, name=recipe.name) as store:
            session = Session(parts, store, options, watchers)
            session.write_manifest()
            state = parts.program.start(options.seed)
            if init_from is not None:
                loaded = load_checkpoint(*init_from)
                state = with_policy(parts, state, loaded.policy)
                notes.append(f"policy taken from {init_from[0].run_id}/{loaded.path.name}")
            announce(parts, notes)
            return session.run(state, Start())
    finally:
        parts.program.close()


@dataclass(frozen=True)
class Continuation:
    """How to go on with a run."""

    which: str = "last"
    overrides: tuple[str, ...] = ()
    budget: str | None = None
    optimizer: bool = True
    full_budget: bool = False
    reschedule: bool = False
    run_id: str | None = None  # of the fork, where there is one
    command: tuple[str, ...] = ()


class NothingToDo(Exception):
    """The run has finished; the message says how to extend it."""


def resume(
    paths: RunPaths,
    how: Continuation,
    *,
    watchers: Sequence[Feature] = (),
    announce: Announce = lambda *_: None,
) -> Result:
    """Go on from the last checkpoint in the same run, or from an earlier one in a new run that forks off."""
    manifest = read_manifest(paths)
    before = read_run_recipe(paths.recipe)
    recipe = amend(before, how.overrides, budget=how.budget)
    changes = tuple(diff(before, recipe))
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
    )
    fork = how.which not in ("last", read_index(paths).get("last"))
    store = RunStore.create(paths.root.parent, how.run_id, name=recipe.name) if fork else RunStore.open(paths)
    with store:
        loaded = load_checkpoint(paths, how.which)
        horizon = _horizon(loaded, recipe, how)
        parts = build(recipe, options.seed, horizon=horizon)
        try:
            if fork:
                options = replace(options, forked_from=f"{paths.run_id}/{loaded.path.name}")
            session = Session(parts, store, options, watchers)
            state, reasons = _load(parts, loaded, options.seed, optimizer=how.optimizer)
            reasons += compare_fingerprint(loaded.info["fingerprint"], session.fingerprint)
            clock = Clock(**loaded.info["clock"])
            if fork:
                session.write_manifest()
                copy_metrics(paths.metrics, store.paths.metrics)
            else:
                cut_after(paths, clock.env_steps)
                _note_session(store, recipe if changes else None, manifest, clock, changes, reasons)
            announce(parts, [*loaded.notes, *_told(clock, changes, reasons), *parts.notes])
            start = Start(clock, loaded.info["features"], horizon, resumed=not fork)
            return session.run(state, start)
        finally:
            parts.program.close()


def with_policy(parts: Parts, state: TrainState, tensors: Tensors) -> TrainState:
    """The state with another run's weights and normaliser."""
    policy = from_tensors(parts.agent.policy(state), tensors)
    algorithm = parts.agent.algorithm.with_weights(state.algorithm, policy.weights)
    return state._replace(algorithm=algorithm, normaliser=policy.normaliser)


def _load(parts: Parts, loaded: Loaded, seed: int, *, optimizer: bool) -> tuple[TrainState, list[str]]:
    begun = parts.program.start(seed)
    state, reasons = parts.program.load(begun, loaded.state)
    if not optimizer:
        algorithm = parts.agent.algorithm
        state = state._replace(algorithm=algorithm.with_weights(begun.algorithm, algorithm.weights(state.algorithm)))
        reasons = [*reasons, "the optimiser starts anew (--no-optimizer)"]
    return state, reasons


def _horizon(loaded: Loaded, recipe: Recipe, how: Continuation) -> Steps:
    """Where schedules end: as before, so that a longer budget does not change the past, unless asked."""
    return recipe.budget if how.reschedule else TypeAdapter(Budget).validate_python(loaded.info["horizon"])


def _refuse_finished(paths: RunPaths, which: str) -> None:
    status = read_status(paths)
    if status.get("status") != "finished" or which != "last":
        return
    steps = status.get("clock", {}).get("env_steps", 0)
    more = "--full-budget" if str(status.get("stop_reason", "")).startswith(("solved", "train_return")) else ""
    hint = more or f"--budget {2 * steps}"
    raise NothingToDo(
        f"{paths.run_id} has finished ({status.get('stop_reason')}, {steps} env_steps): "
        f"extend it with `gymlab resume {paths.run_id} {hint}`"
    )


def _told(clock: Clock, changes: Sequence[tuple[str, Any, Any]], reasons: list[str]) -> list[str]:
    how = "exact" if not reasons and not changes else "not exact"
    lines = [f"resumed ({how}) at {clock.env_steps} env_steps, update {clock.updates}"]
    lines += [f"changed {path}: {old} -> {new}" for path, old, new in changes]
    return lines + [f"not exact: {reason}" for reason in reasons]


def _note_session(
    store: RunStore, recipe: Recipe | None, manifest: dict[str, Any], clock: Clock, changes: Any, reasons: list[str]
) -> None:
    """Add this session to the manifest, and the changed recipe to the run."""
    from gymlab.recipes.dump import dump_recipe

    record = {
        "resumed_at": clock.env_steps,
        "exact": not reasons and not changes,
        "reasons": reasons,
        "changes": [list(change) for change in changes],
    }
    store.write_manifest(manifest | {"sessions": [*manifest.get("sessions", []), record]})
    if recipe is not None:
        store.write_recipe(dump_recipe(recipe))
