"""The policy as it is now at play, as a short film of pictures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from nicegui import ui

from gymlab.core.errors import GymlabError
from gymlab.web.workers.playground_client import Playground

_PICTURES_PER_SECOND = 20


class EpisodeFilm:
    def __init__(self, worker: Playground, token: str, seed: Callable[[], int]) -> None:
        self._worker = worker
        self._token = token
        self._seed = seed
        self._files: list[str] = []
        self._place = 0
        with ui.column().classes("gl-card gap-1 items-center").style("flex: 1 1 260px"):
            self._button = ui.button("Watch an episode", icon="visibility", on_click=self._watch)
            self._button.props("dense no-caps flat")
            self._picture = ui.element("img").props('alt="the policy at play"').style("max-width: 100%")
            self._caption = ui.label("the policy as it is now, in the real environment").classes("gl-faint")
            self._caption.props("data-part=film")
        self._picture.set_visibility(False)
        self._timer = ui.timer(1 / _PICTURES_PER_SECOND, self._turn, active=False)

    async def _watch(self) -> None:
        self._button.disable()
        try:
            answer = await asyncio.wrap_future(self._worker.episode(self._seed()))
        except GymlabError as error:
            self._caption.set_text(str(error))
            return
        finally:
            self._button.enable()
        self._files = answer["files"]
        self._place = 0
        pictures = "" if self._files else "; it draws no pictures"
        self._caption.set_text(f"return {answer['return']:.4g} in {answer['length']} steps{pictures}")
        self._picture.set_visibility(bool(self._files))
        self._timer.active = bool(self._files)

    def _turn(self) -> None:
        if self._place >= len(self._files):
            self._timer.active = False
            return
        self._picture.props["src"] = f"/worker-files/{self._token}/{self._files[self._place]}"
        self._picture.update()
        self._place += 1
