"""All runs of the folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicegui import ui

from gymlab.runs.registry import Registry
from gymlab.web.frame import frame
from gymlab.web.site import Site

if TYPE_CHECKING:
    from fastapi import FastAPI


def register(site: Site, front: FastAPI) -> None:
    """The page of all runs."""
    del front
    site.add_link("Runs", "/", "list")

    @ui.page("/")
    def page() -> None:
        with frame(site, "Runs"):
            for entry in Registry(site.runs_dir).runs():
                ui.label(str(entry["id"]))
