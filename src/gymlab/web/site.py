"""What every page knows: where the runs are, and what stands in the navigation."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from gymlab.core.errors import UserError
from gymlab.runs.paths import RunPaths, run_paths
from gymlab.web.series import SeriesCache


@dataclass(frozen=True)
class Link:
    """A place in the navigation."""

    title: str
    path: str
    icon: str


@dataclass
class Site:
    """The server's own settings. Pages are registered on it once, before it starts."""

    runs_dir: Path
    links: list[Link] = field(default_factory=list)
    series: SeriesCache = field(default_factory=SeriesCache)

    def add_link(self, title: str, path: str, icon: str) -> None:
        """Put a page into the navigation, after those that are there."""
        self.links.append(Link(title, path, icon))

    def run(self, run_id: str) -> RunPaths:
        """A run of the runs folder by its whole id: whatever else a client sends is refused, paths above all."""
        paths = run_paths(self.runs_dir, run_id)
        if not paths.exists:
            raise UserError(f"there is no run '{run_id}'")
        return paths
