"""Playground page: trains a small env live, with its scheduled hyperparameters as sliders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicegui import ui

from gymlab.core.errors import GymlabError
from gymlab.web.page_frame import frame
from gymlab.web.pages import Site
from gymlab.web.playground.controls import PlaygroundControls
from gymlab.web.workers.client import PlaygroundClient
from gymlab.web.workers.worker_limit import page_workers

if TYPE_CHECKING:
    from fastapi import FastAPI


def register(site: Site, front: FastAPI) -> None:
    """`/playground`, with a worker process for every open page."""
    workers = page_workers(front)
    site.add_link("Playground", "/playground", "sports_esports")

    @ui.page("/playground")
    async def playground() -> None:
        with frame(site, "Playground"):
            try:
                token, worker = workers.take(PlaygroundClient)
            except GymlabError as error:
                ui.label(str(error))
                return
            ui.context.client.on_delete(lambda: workers.end(token))
            controls = PlaygroundControls(worker, token)
            await ui.context.client.connected()
            await controls.start()
