"""Sink: the interface of every tracker, and the description of a run that it gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from gymlab.core.clock import Clock
from gymlab.runs.manifest import read_manifest
from gymlab.runs.paths import RunPaths
from gymlab.runs.redact import redact, redact_tree


@dataclass(frozen=True)
class RunInfo:
    """What a tracker shows of a run besides its metrics. Holds nothing about the machine, the user or the command."""

    run_id: str
    algorithm: str
    seed: int
    recipe: str = ""
    group: str | None = None
    tags: tuple[str, ...] = ()
    note: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def display_name(self) -> str:
        return f"{self.algorithm}-{self.run_id}"


def read_info(paths: RunPaths) -> RunInfo:
    """Read from the run's own files."""
    from gymlab.recipes.resolve import read_run_recipe
    from gymlab.recipes.write import variant_mapping

    manifest = read_manifest(paths)
    recipe = read_run_recipe(paths.recipe)
    note = manifest.get("note")
    return RunInfo(
        run_id=paths.run_id,
        algorithm=recipe.algorithm.name,
        seed=manifest["seed"],
        recipe=recipe.name,
        group=manifest.get("group"),
        tags=tuple(manifest.get("tags", ())),
        note=note and redact(note),
        config=redact_tree({"seed": manifest["seed"], **variant_mapping(recipe)}),
    )


class Sink(Protocol):
    """A destination of a run's copy. Called by one thread; it may block or raise without affecting the run.

    After an error the next call is `start`, which has to determine again what has arrived.
    """

    name: str

    def describe(self) -> str:
        """Where the copy goes, for the first line of a run."""
        ...

    def start(self, info: RunInfo, at: Clock) -> int:
        """Open a copy that continues at `at`; returns the last step (vec_steps) it holds, after which rows are sent."""
        ...

    def row(self, clock: Clock, metrics: Mapping[str, float]) -> None:
        """One complete update; or, at an earlier step, values that were measured late."""
        ...

    def media(self, path: Path, step: int) -> None:
        """A clip of the policy at a step, which may be long past."""
        ...

    def artifact(self, path: Path, aliases: tuple[str, ...]) -> None:
        """A checkpoint folder that is the best so far."""
        ...

    def flush(self) -> None:
        """Return when everything passed so far is safe."""
        ...

    def finish(self, seconds: float, *, failed: bool) -> None:
        """Close the copy, in this time at most. `failed`: the run ended by an error."""
        ...

    def abandon(self) -> None:
        """Called by another thread when time is up: release everything at once."""
        ...
