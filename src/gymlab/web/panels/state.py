"""Debugger of a run: pause, run one update, resume; the last metrics row and statistics of the weights."""

from __future__ import annotations

import contextlib
from asyncio import to_thread
from functools import partial

import numpy as np
from nicegui import ui

from gymlab.core.errors import GymlabError
from gymlab.core.types import Json
from gymlab.metrics.catalogue import ordered, written
from gymlab.runs import requests
from gymlab.runs.checkpoints import load_checkpoint
from gymlab.runs.metrics_reader import MetricsReader
from gymlab.web.live_updates import LiveRun, Stamp, metrics_stamp, plain_text, stamp
from gymlab.web.page_frame import show_errors

_MOST_TENSORS = 200
_REQUESTS: dict[requests.Request, tuple[str, str]] = {
    "pause": ("Pause", "pause"),
    "step": ("Run one update", "skip_next"),
    "resume": ("Resume", "play_arrow"),
    "checkpoint": ("Checkpoint", "save"),
}
_ROW: list[dict[str, Json]] = [
    {"name": "name", "label": "metric", "field": "name", "align": "left", "sortable": True},
    {"name": "value", "label": "last row", "field": "value", "align": "right"},
]
_TENSORS: list[dict[str, Json]] = [
    {"name": name, "label": name, "field": name, "align": "left" if name == "tensor" else "right", "sortable": True}
    for name in ("tensor", "shape", "norm", "mean", "std", "min", "max", "zeros", "bad")
]


class StatePanel:
    def __init__(self, view: LiveRun) -> None:
        self._view = view
        self._seen: tuple[Stamp, Stamp] = ((), ())
        self._buttons: dict[requests.Request, ui.button] = {}

    def build(self) -> None:
        with ui.row().classes("items-center gap-2"):
            for request, (title, icon) in _REQUESTS.items():
                self._buttons[request] = ui.button(title, icon=icon, on_click=partial(self._ask, request)).props(
                    "dense outline no-caps"
                )
            self._training_label = ui.label().classes("gl-faint")
        with ui.element("div").classes("gl-charts w-full"), ui.column().classes("gl-card gap-1"):
            ui.label("Last rollout, update and gradients").classes("font-semibold")
            self._search = ui.input(placeholder="Filter", value="norm").props(
                'dense outlined clearable aria-label="Filter values"'
            )
            self._row = ui.table(rows=[], columns=_ROW, row_key="name", pagination=0).classes("w-full")
            self._row.props("dense flat hide-bottom virtual-scroll").style("max-height: 60vh").bind_filter_from(
                self._search, "value"
            )
        with ui.column().classes("gl-card gap-1 w-full"):
            self._which = ui.label("Weights").classes("font-semibold")
            self._tensors = ui.table(rows=[], columns=_TENSORS, row_key="tensor", pagination=0).classes("w-full")
            self._tensors.props("dense flat hide-bottom")

    def _ask(self, request: requests.Request) -> None:
        with show_errors():
            requests.send_request(self._view.paths, request)

    async def refresh(self) -> None:
        view = self._view
        running = view.status["status"] == "running"
        paused = view.paused
        for request, button in self._buttons.items():
            fits = {"pause": not paused, "resume": paused}.get(request, True)
            button.set_enabled(running and fits)
        at = requests.read_pause_state(view.paths).get("updates")
        self._training_label.set_text(
            f"paused after update {at}" if running and paused else "training" if running else "not running"
        )
        metrics = metrics_stamp(view.paths)
        saved = stamp(view.paths.checkpoints)
        if metrics != self._seen[0]:
            self._row.update_rows(await to_thread(self._last_row), clear_selection=False)
        if saved != self._seen[1]:
            title, rows = await to_thread(self._weights)
            self._which.set_text(title)
            self._tensors.update_rows(rows, clear_selection=False)
        self._seen = metrics, saved

    def _last_row(self) -> list[dict[str, str]]:
        try:
            with MetricsReader(self._view.paths.metrics) as reader:
                row = reader.last()
        except GymlabError:
            return []
        return [{"name": plain_text(name, 100), "value": written(name, row[name])} for name in ordered(row)]

    def _weights(self) -> tuple[str, list[dict[str, Json]]]:
        with contextlib.suppress(GymlabError, OSError):
            loaded = load_checkpoint(self._view.paths, "last", with_state=False)
            rows = [_statistics(name, loaded.policy[name]) for name in list(loaded.policy)[:_MOST_TENSORS]]
            return f"Weights and normaliser of checkpoint {loaded.path.name}", rows
        return "No checkpoint yet", []


def _statistics(name: str, tensor: np.ndarray) -> dict[str, Json]:
    """Shape, norm, moments, range, share of zeros and number of non-finite values of a tensor."""
    about: dict[str, Json] = {"tensor": plain_text(name, 100), "shape": "×".join(map(str, tensor.shape)) or "1"}
    values = tensor.astype(np.float64).ravel()
    good = values[np.isfinite(values)]
    if not len(good):
        return {**about, "bad": len(values)}
    numbers = {
        "norm": np.linalg.norm(good),
        "mean": good.mean(),
        "std": good.std(),
        "min": good.min(),
        "max": good.max(),
        "zeros": (good == 0).mean(),
    }
    return {**about, **{key: f"{value:.4g}" for key, value in numbers.items()}, "bad": len(values) - len(good)}
