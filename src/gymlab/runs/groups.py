"""Groups of runs that were started together, with their members, also those not started yet.

`runs/.groups/NAME.json`; the runs themselves know their group by name.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from gymlab.runs import files
from gymlab.runs.paths import RunPaths, run_paths
from gymlab.runs.records import GroupRecord
from gymlab.runs.status import read_record, read_status

FOLDER = ".groups"


@dataclass(frozen=True)
class Member:
    """A run of a group; `overrides` is what its recipe has beyond the group's."""

    run_id: str
    seed: int
    overrides: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What distinguishes it from the other members."""
        return ", ".join([*self.overrides, f"seed {self.seed}"])


@dataclass(frozen=True)
class Group:
    """What is needed to start or resume every member."""

    name: str
    title: str  # the recipe's name
    recipe: str  # YAML with every value, without secrets
    how: str  # processes or vmap
    members: tuple[Member, ...]
    full_budget: bool = False
    tags: tuple[str, ...] = ()
    note: str | None = None
    solved_at_source: str | None = None
    init_from: str | None = None  # RUN[/CHECKPOINT] whose policy every member starts from


def write_group(runs_root: Path, group: Group) -> None:
    path = _path(runs_root, group.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_json(path, asdict(group))


def read_group(runs_root: Path, name: str) -> Group | None:
    """The group of that name; None if there is none."""
    record = cast("GroupRecord", read_record(_path(runs_root, name)))
    try:
        members = tuple(Member(m["run_id"], m["seed"], tuple(m["overrides"])) for m in record["members"])
        fields: dict[str, Any] = {**record, "members": members, "tags": tuple(record["tags"])}
        return Group(**fields)
    except (KeyError, TypeError):
        return None


def unfinished(runs_root: Path, group: Group) -> list[tuple[Member, bool]]:
    """The members that have not finished, and whether they have started."""
    found = []
    for member in group.members:
        paths = RunPaths(runs_root / member.run_id)
        if not paths.exists or read_status(paths)["status"] != "finished":
            found.append((member, paths.exists))
    return found


def _path(runs_root: Path, name: str) -> Path:
    return runs_root / FOLDER / f"{run_paths(runs_root, name).run_id}.json"  # a name is valid where a run's would be
