"""Form that runs an episode: checkpoint, seed, greedy or sampled, step limit; progress and stop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future

from nicegui import ui

from gymlab.core.errors import GymlabError
from gymlab.core.types import Json
from gymlab.web.inspect.view_state import InspectorState
from gymlab.web.workers.answers import EpisodeProgress, PlayedEpisode
from gymlab.web.workers.step_table import EpisodeRequest

MOST_STEPS = 20_000  # rows that a page can hold


class EpisodeForm:
    """Runs episodes; one at a time."""

    def __init__(self, looking: InspectorState) -> None:
        self._state = looking
        self._under_way: Future[PlayedEpisode] | None = None
        self._progress: EpisodeProgress | None = None
        facts = looking.facts
        named = {"best": facts["best"], "last": facts["last"]}
        names = {name: f"{name} ({at})" for name, at in named.items() if at is not None}
        choices = names | {at: at for at in facts["checkpoints"]}
        with ui.row().classes("gl-card w-full items-center gap-3"):
            first = next(iter(choices), None)
            self._checkpoint = ui.select(choices, value=first, label="checkpoint").props("dense").classes("w-36")
            self._seed = ui.number("seed", value=facts["seed"], min=0, precision=0).props("dense").classes("w-20")
            ways = {False: "greedy", True: "sampled"}
            self._sampled = ui.select(ways, value=facts["sampled"], label="policy").props("dense").classes("w-28")
            self._most = ui.number("most steps", value=facts["max_steps"], min=1, max=MOST_STEPS, precision=0)
            self._most.props("dense").classes("w-24")
            self._run = ui.button("Run episode", icon="play_circle", on_click=self.run).props("dense no-caps")
            self._stop = ui.button("Stop", icon="stop", on_click=self._cancel).props("dense no-caps flat")
            self._progress_label = ui.label("").classes("gl-faint").props("data-part=progress")
        self._watch = ui.timer(0.2, self._show_progress, active=False)
        self._stop.set_visibility(False)

    def asked(self, forced: Mapping[int, Json] | None = None) -> EpisodeRequest:
        """The request of the form; with `forced` actions, the shown episode replayed with them."""
        table = self._state.table
        most = _whole(self._most, 1, MOST_STEPS)
        if forced and table is not None:
            return EpisodeRequest(table.checkpoint, table.seed, table.sampled, most, forced)
        return EpisodeRequest(
            str(self._checkpoint.value), _whole(self._seed, 0, 2**31 - 1), bool(self._sampled.value), most
        )

    async def run(self) -> None:
        """Play the episode and show it."""
        answer = await self.play(self.asked())
        if answer is not None:
            self._state.show(answer)

    async def play(self, asked: EpisodeRequest) -> PlayedEpisode | None:
        """The worker's answer; None where the episode failed, which is notified."""
        if self._under_way is not None:
            return None
        self._under_way = self._state.inspector.episode(asked, self._hear)
        self._turn(running=True)
        try:
            return await asyncio.wrap_future(self._under_way)
        except GymlabError as error:
            ui.notify(str(error), type="warning")
            return None
        finally:
            self._under_way = None
            self._turn(running=False)

    def _turn(self, *, running: bool) -> None:
        self._progress = None
        self._progress_label.set_text("the episode begins …" if running else "")
        self._run.set_enabled(not running)
        self._stop.set_visibility(running)
        self._watch.active = running

    def _hear(self, progress: EpisodeProgress) -> None:
        self._progress = progress  # from a thread: shown by the timer

    def _show_progress(self) -> None:
        if self._progress:
            self._progress_label.set_text(f"step {self._progress['steps']}, return {self._progress['return']:.4g} …")

    def _cancel(self) -> None:
        if self._under_way is not None:
            self._state.inspector.cancel(self._under_way)


def _whole(field: ui.number, low: int, high: int) -> int:
    """The number of a field, clamped: the browser does not enforce min and max."""
    return max(low, min(high, int(field.value or 0)))
