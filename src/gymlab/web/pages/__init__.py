"""All pages in the order of the navigation, and the `Site` that they are registered on.

A page is a module here with `register(site, front)`: it decorates its functions with `ui.page(path)`, calls
`site.add_link(title, path, icon)` to appear in the navigation, and adds plain routes, such as downloads, to
`front` (a FastAPI app). To add one, put its name into PAGES.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from gymlab.core.errors import UserError
from gymlab.runs.paths import RunPaths, run_paths
from gymlab.web.charts.downsampled_series import SeriesCache

if TYPE_CHECKING:
    from fastapi import FastAPI

PAGES: tuple[str, ...] = (
    "runs",
    "run",
    "compare",
    "inspector",
    "playground",
    "downloads",
)


@dataclass(frozen=True)
class Link:
    """An entry of the navigation."""

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
        """Append a page to the navigation."""
        self.links.append(Link(title, path, icon))

    def run(self, run_id: str) -> RunPaths:
        """A run of the runs folder by its full id; anything else a client sends is refused, paths above all."""
        paths = run_paths(self.runs_dir, run_id)
        if not paths.exists:
            raise UserError(f"there is no run '{run_id}'")
        return paths


def register_all(site: Site, front: FastAPI) -> None:
    """Make all pages known to the server."""
    for name in PAGES:
        import_module(f"gymlab.web.pages.{name}").register(site, front)
