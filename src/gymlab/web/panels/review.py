"""Review of a run or an episode: a prompt to copy, and the answer of a language model where one is configured."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Callable

from nicegui import ui

from gymlab.core.errors import GymlabError
from gymlab.web.live_updates import LiveRun, plain_text
from gymlab.web.llm_endpoint import configured, stream
from gymlab.web.page_frame import copy_to_clipboard, show_errors
from gymlab.web.run_prompt import run_prompt


class Review:
    """A prompt and the model's answer to it."""

    def __init__(self, subject: str, make: Callable[[], str]) -> None:
        self._subject = subject
        self._maker = make
        self._bundle = ""

    def build(self) -> None:
        with ui.row().classes("items-center gap-2"):
            ui.button(f"Explain this {self._subject}", icon="psychology", on_click=self._explain).props("dense")
            ui.button("Copy", icon="content_copy", on_click=self._copy).props("flat dense")
            self._with = ui.label(_whom()).classes("gl-faint")
        self._answer = ui.label().classes("gl-card w-full").style("white-space: pre-wrap; overflow-wrap: anywhere")
        self._answer.set_visibility(False)
        with ui.expansion("The text", value=True).classes("w-full").props("dense"):
            self._text = ui.label().classes("gl-mono").style("white-space: pre; overflow-x: auto; display: block")
            self._text.props("data-part=review")

    async def refresh(self) -> None:
        if not self._bundle:
            await self._make()

    async def _make(self) -> None:
        self._bundle = await to_thread(self._maker)
        self._text.set_text(self._bundle)

    async def _copy(self) -> None:
        await self._make()
        copy_to_clipboard(self._bundle, "The text")

    async def _explain(self) -> None:
        await self._make()
        with show_errors():
            endpoint = configured()
            if endpoint is None:
                ui.notify("No model is configured: copy the text instead. docs/web.md says how to name one.")
                return
            self._answer.set_visibility(True)
            answer = ""
            try:
                async for piece in stream(endpoint, self._bundle):
                    answer += piece
                    self._answer.set_text(plain_text(answer, 40_000))
            except GymlabError as error:
                self._answer.set_text(plain_text(f"{answer}\n{error}", 40_000).strip())


class ReviewPanel(Review):
    """The review of a run."""

    def __init__(self, view: LiveRun) -> None:
        super().__init__("run", lambda: run_prompt(view))


def _whom() -> str:
    try:
        endpoint = configured()
    except GymlabError as error:
        return plain_text(str(error), 300)
    return f"asks {endpoint.name}" if endpoint else "no model is configured: the text can be copied"
