"""Where a copy of a run goes: one interface for every tracker, and what a tracker is told of a run."""

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
    """What a tracker shows of a run beside its numbers. Nothing of the machine, the user or the command is in it."""

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
    """From the run's own files."""
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
    """A tracker's end. Called by one thread; it may block, be slow or raise: the run does not notice.

    After an error the next call is `start`, which has to find out anew what has arrived.
    """

    name: str

    def describe(self) -> str:
        """Where the copy goes, for the first line of a run."""
        ...

    def start(self, info: RunInfo, at: Clock) -> int:
        """Open a copy that goes on at `at`; the last step (vec_steps) it holds. Rows up to that are not sent again."""
        ...

    def row(self, clock: Clock, metrics: Mapping[str, float]) -> None:
        """One update, whole; or, at a step that came before, values that were measured late."""
        ...

    def media(self, path: Path, step: int) -> None:
        """A clip of the policy as it was at a step, which may be long past."""
        ...

    def artifact(self, path: Path, aliases: tuple[str, ...]) -> None:
        """A checkpoint folder that is the best so far."""
        ...

    def flush(self) -> None:
        """Return when everything handed over is safe."""
        ...

    def finish(self, seconds: float, *, failed: bool) -> None:
        """Close the copy, in this time at most. `failed`: the run ended by an error."""
        ...

    def abandon(self) -> None:
        """Time is up, said by another thread: let go of everything, at once."""
        ...
