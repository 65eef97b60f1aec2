"""The playground's page: game, train and pause, hyperparameter sliders, live charts, and an episode of the policy."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial

from nicegui import events, ui

from gymlab.core.errors import GymlabError
from gymlab.web.charts.live_chart import LiveChart
from gymlab.web.playground.games_and_sliders import GAMES, Slider, sliders
from gymlab.web.workers.answers import PlaygroundReport
from gymlab.web.workers.client import PlaygroundClient

_REFRESH_SECONDS = 0.5


class PlaygroundControls:
    """The page's controls. `_reports` queues the worker's progress until the next refresh."""

    def __init__(self, worker: PlaygroundClient, token: str) -> None:
        self._worker = worker
        self._reports: deque[PlaygroundReport] = deque()
        self._running: Future[None] | None = None
        self._env_steps = 0
        self._values: Mapping[str, float] = {}  # of the last update shown
        with ui.row().classes("gl-card w-full items-center gap-3"):
            self._game = ui.select(list(GAMES), value=next(iter(GAMES)), label="game", on_change=self.start)
            self._game.props("dense data-part=game").classes("w-52")
            self._seed = ui.number("seed", value=0, min=0, precision=0).props("dense").classes("w-16")
            self._run = ui.button("Train", icon="play_arrow", on_click=self.toggle).props("dense no-caps")
            ui.button("Reset", icon="restart_alt", on_click=self.start).props("dense no-caps flat")
            self._about = ui.label("").classes("gl-faint")
        with ui.row().classes("w-full items-stretch gap-3"):
            self._sliders = ui.column().classes("gl-card gap-1").style("flex: 1 1 300px")
            with ui.column().classes("gl-card gap-1").style("flex: 3 1 320px"):
                self._status = ui.label("").classes("gl-mono").props("data-part=status")
                self._charts = {
                    "return": LiveChart("return of the last training episodes", "#5898d4"),
                    "entropy": LiveChart("entropy: how undecided the policy is", "#59a14f"),
                    "moved": LiveChart("how far the weights moved", "#af7aa1"),
                }
            EpisodeFilm(worker, token, lambda: int(self._seed.value or 0))
        ui.timer(_REFRESH_SECONDS, self._refresh)

    async def start(self) -> None:
        """Start over with initial weights, ending a training that runs."""
        self._set_running(False)
        self._run.disable()
        self._status.set_text("compiling …")
        try:
            answer = await asyncio.wrap_future(self._worker.start(self._game.value, int(self._seed.value or 0)))
        except GymlabError as error:
            self._status.set_text(str(error))
            return
        self._reports.clear()
        self._env_steps = 0
        self._values = answer["values"]
        for chart in self._charts.values():
            chart.clear()
        self._about.set_text(f"{GAMES[self._game.value].about}; {answer['n_envs']} envs x {answer['n_steps']} steps")
        self._status.set_text("ready")
        self._run.enable()
        self._sliders.clear()
        with self._sliders:
            ui.label("Numbers that take effect at the next update").classes("font-semibold")
            for slider in sliders(answer["values"]):
                self._slider(slider)

    def _slider(self, slider: Slider) -> None:
        with ui.row().classes("w-full justify-between no-wrap"):
            ui.label(slider.name.replace("_", " "))
            shown = ui.label(f"{slider.value:.4g}").classes("gl-mono").props(f"data-part=value-{slider.name}")
        if slider.help:
            ui.label(slider.help).classes("gl-faint")
        moved = partial(self._moved, slider, shown)
        bar = ui.slider(min=0, max=1, step=0.005, value=slider.place(slider.value), on_change=moved)
        bar.props(f'aria-label="{slider.name}" data-part=slider-{slider.name}')

    def _moved(self, slider: Slider, shown: ui.label, event: events.ValueChangeEventArguments[float | None]) -> None:
        value = slider.at(float(event.value or 0.0))
        shown.set_text(f"{value:.4g}")
        self._worker.set(slider.name, value)

    def toggle(self) -> None:
        """Train or pause."""
        if self._running is None:
            self._running = self._worker.run(self._reports.append)
            if not self._env_steps:
                self._status.set_text("compiling the first update …")
            self._set_running(True)
        else:
            self._worker.pause()
            self._set_running(False)

    def _set_running(self, running: bool) -> None:
        if not running:
            self._running = None
        self._run.props(f"icon={'pause' if running else 'play_arrow'}")
        self._run.set_text("Pause" if running else "Train")

    def _refresh(self) -> None:
        if self._running is not None and self._running.done() and (error := self._running.exception()):
            self._status.set_text(f"{error} (Reset starts over)")
            self._set_running(False)
        if not self._reports:
            return
        while self._reports:
            last = self._reports.popleft()
            self._mark_changes(last)
            for steps, returned, _, entropy, *_ in last["rows"]:
                self._charts["return"].add(steps, returned)
                self._charts["entropy"].add(steps, entropy)
            self._charts["moved"].add(last["env_steps"], last["moved"])
        self._env_steps = last["env_steps"]
        for chart in self._charts.values():
            chart.flush()
        self._status.set_text(
            f"{last['env_steps']:,} env_steps · {last['updates']} updates · return {_shown(last['rows'][-1][1])} · "
            f"weights moved {last['moved']:.3g} · programs compiled {last['compilations']}"
        )

    def _mark_changes(self, report: PlaygroundReport) -> None:
        """Mark the first update that used a changed hyperparameter."""
        changed = [f"{n} {x:.3g}" for n, x in report["values"].items() if self._values.get(n, x) != x]
        self._values = report["values"]
        if changed:
            for chart in self._charts.values():
                chart.mark(report["rows"][0][0], ", ".join(changed))


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


_PICTURES_PER_SECOND = 20


class EpisodeFilm:
    def __init__(self, worker: PlaygroundClient, token: str, seed: Callable[[], int]) -> None:
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
