"""AutotuneState: everything an autotune has decided and found so far. Written to autotune.json after every stage.

The decisions (steps of a run, number of trials, seeds) are written before they are used, so that an interrupted
autotune is resumed with the same ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from gymlab.campaigns.sweep.plan import sweep_folder
from gymlab.core.errors import RunError, UserError
from gymlab.core.settings import Settings
from gymlab.core.types import Json
from gymlab.runs import files

FILE = "autotune.json"  # in the sweep's folder
Stage = Literal["search", "choice", "confirm", "done"]


class AutotuneState(Settings):
    """The fields of autotune.json."""

    name: str
    reference: str
    overrides: tuple[str, ...] = ()
    seconds: float
    """The time limit, as requested."""
    seed: int = 0
    requested: tuple[int | None, int | None, int | None] = (None, None, None)
    """env_steps of a run, trials, fresh seeds, as requested; None: derived from the time limit."""
    workers: int
    speed: float = 0.0
    """Measured env_steps per second of one worker."""
    env_steps: int = 0
    """Budget of every run, tuned or not."""
    trials: int = 0
    space: tuple[str, ...] = ()
    stage: Stage = "search"
    spent: float = 0.0
    """Seconds so far, of all sessions."""
    cut: bool = False
    """The time limit ended the search before all its trials had ended."""
    candidates: tuple[tuple[str, ...], ...] = ()
    chosen: tuple[str, ...] | None = None
    """Overrides of the tuned recipe; empty: no trial was better than the recipe."""
    pace: float = 0.0
    """Measured worker seconds per run of the choice stage: more than estimated if the machine has become busier."""
    fresh: tuple[int, ...] = ()
    result: dict[str, Any] | None = None
    written: str | None = None
    created: str = ""
    versions: dict[str, str] = Field(default_factory=dict)

    @property
    def budget(self) -> str:
        return f"{self.env_steps} env_steps"

    def as_json(self) -> dict[str, Json]:
        return self.model_dump(mode="json")


def write_state(runs_root: Path, state: AutotuneState) -> AutotuneState:
    folder = sweep_folder(runs_root, state.name)
    folder.mkdir(parents=True, exist_ok=True)
    files.write_json(folder / FILE, state.as_json())
    return state


def read_state(runs_root: Path, name: str) -> AutotuneState | None:
    """None if there is no autotune of that name."""
    path = sweep_folder(runs_root, name) / FILE
    if not path.is_file():
        return None
    try:
        return AutotuneState.model_validate(files.read_json(path))
    except ValidationError as error:
        raise RunError(f"{path} is damaged: remove it to tune anew") from error


def resume_state(runs_root: Path, new: AutotuneState) -> AutotuneState:
    """The existing state of this name, or the new one; UserError if the existing one was requested differently."""
    known = read_state(runs_root, new.name)
    if known is None:
        return new
    for key in ("reference", "overrides", "seconds", "seed", "requested"):
        before = getattr(known, key)
        after = getattr(new, key)
        if before != after:
            raise UserError(f"autotune '{known.name}' exists with another {key} ({before}): choose another --name")
    return known
