"""All pages, in the order of the navigation.

A page is a module here with `register(site, front)`: it decorates its functions with `ui.page(path)`, calls
`site.add_link(title, path, icon)` where it belongs into the navigation, and adds plain routes, such as downloads, to
`front` (a FastAPI app). To add one, put its name into PAGES.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from gymlab.web.site import Site

if TYPE_CHECKING:
    from fastapi import FastAPI

PAGES: tuple[str, ...] = (
    "runs",
    "run",
    "compare",
    "inspector",
    "playground",
    "files",
)


def register_all(site: Site, front: FastAPI) -> None:
    """Make all pages known to the server."""
    for name in PAGES:
        import_module(f"gymlab.web.pages.{name}").register(site, front)
