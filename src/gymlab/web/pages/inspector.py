"""Inspector page: an episode step by step, with observation, decision, reward and value."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from nicegui import ui

from gymlab.core.errors import GymlabError
from gymlab.runs.registry import Registry
from gymlab.web.inspect.attribution import AttributionCard
from gymlab.web.inspect.episode_form import EpisodeForm
from gymlab.web.inspect.playback_controls import PlaybackControls
from gymlab.web.inspect.step_cards import STYLE, ActionCard, EpisodeSummary, ObservationCard, PicturesCard, RewardCard
from gymlab.web.inspect.timeline import Timeline
from gymlab.web.inspect.view_state import InspectorState
from gymlab.web.inspect.what_if import EditedObservationCard, ForcedActionCard
from gymlab.web.page_frame import frame
from gymlab.web.pages import Site
from gymlab.web.panels.review import Review
from gymlab.web.run_prompt import episode_prompt
from gymlab.web.workers.client import InspectorClient
from gymlab.web.workers.step_table import episode_text
from gymlab.web.workers.worker_limit import PageWorkers, page_workers

if TYPE_CHECKING:
    from fastapi import FastAPI

_MOST_RUNS = 50


def register(site: Site, front: FastAPI) -> None:
    """`/inspect` lists runs, `/inspect/RUN` opens one."""
    workers = page_workers(front)
    site.add_link("Inspect", "/inspect", "manage_search")

    @ui.page("/inspect")
    def choose() -> None:
        with frame(site, "Inspect a run"):
            _choose(site)

    @ui.page("/inspect/{run_id}")
    async def inspect(run_id: str) -> None:
        with frame(site, f"Inspect {run_id}"):
            await _inspect(site, workers, run_id)


def _choose(site: Site) -> None:
    entries = Registry(site.runs_dir).runs()[:_MOST_RUNS]
    for entry in entries:
        with ui.row().classes("items-center gap-2"):
            ui.link(str(entry["id"]), f"/inspect/{entry['id']}")
            ui.label(str(entry.get("name", ""))).classes("gl-faint")
    if not entries:
        ui.label("there are no runs yet: gymlab train CartPole-v1")


async def _inspect(site: Site, workers: PageWorkers, run_id: str) -> None:
    ui.add_css(STYLE)
    try:
        root = site.run(run_id).root
        token, inspector = workers.take(lambda: InspectorClient(root))
    except GymlabError as error:
        ui.label(str(error))
        return
    ui.context.client.on_delete(lambda: workers.end(token))
    waiting = ui.row().classes("items-center gap-2")
    with waiting:
        ui.spinner()
        ui.label("loading the policy and its environment …")
    state = InspectorState(inspector, token, run_id)
    content = ui.column().classes("w-full gap-3")
    await ui.context.client.connected()
    try:
        state.facts = await asyncio.wrap_future(inspector.facts)
    except (GymlabError, asyncio.CancelledError) as error:
        waiting.clear()
        with waiting:
            ui.label(str(error))
        return
    waiting.delete()
    with content:
        if not state.facts["checkpoints"]:
            ui.label("this run has no checkpoint yet: there is no policy to look at")
            return
        form = _build(state)
        await form.run()


def _build(state: InspectorState) -> EpisodeForm:
    """Build all parts, from top to bottom."""
    with ui.row().classes("w-full items-center gap-3"):
        ui.link(f"{state.facts['recipe']}", f"/run/{state.run_id}")
        EpisodeSummary(state)
    form = EpisodeForm(state)
    with ui.row().classes("w-full items-stretch gap-3"):
        PicturesCard(state)
        ObservationCard(state)
        ActionCard(state)
        RewardCard(state)
    PlaybackControls(state)
    Timeline(state)
    with ui.row().classes("w-full items-stretch gap-3"):
        EditedObservationCard(state)
        ForcedActionCard(state, form)
        AttributionCard(state)
    _build_exports(state)
    return form


def _build_exports(state: InspectorState) -> None:
    """Buttons: the episode as CSV, and its review."""

    def download() -> None:
        if state.table is not None:
            name = f"{state.run_id}-{state.table.checkpoint}-seed{state.table.seed}.csv"
            ui.download.content(state.inspector.csv(state.table.name), name)

    def text() -> str:
        names = [part["name"] for part in state.facts["components"]]
        return "" if state.table is None else f"run: {state.run_id}\n{episode_text(state.table, names)}"

    async def show() -> None:
        review = Review("episode", lambda: episode_prompt(text()))
        with ui.dialog() as dialog, ui.card().classes("w-full max-w-4xl"):
            review.build()
        dialog.open()
        await review.refresh()

    with ui.row().classes("w-full gap-2"):
        ui.button("Download CSV", icon="download", on_click=download).props("dense no-caps flat")
        ui.button("Review this episode", icon="rate_review", on_click=show).props("dense no-caps flat")
