"""A live line chart over env_steps, for the playground's return, entropy and weight movement."""

from __future__ import annotations

from nicegui import ui

from gymlab.core.types import Json

_MOST = 600  # points of a line; more are thinned to every second
_GREY = {"fontSize": 11, "color": "#888"}


class LiveChart:
    """One growing line; `flush` sends it to the browser."""

    def __init__(self, title: str, colour: str) -> None:
        self._points: list[list[float]] = []
        self._marks: list[dict[str, Json]] = []
        axis = {"type": "value", "axisLabel": _GREY, "splitLine": {"lineStyle": {"opacity": 0.3}}}
        line = {
            "type": "line",
            "symbol": "none",
            "animation": False,
            "lineStyle": {"width": 1.5, "color": colour},
            "data": [],
            "markLine": {"symbol": "none", "silent": True, "animation": False, "data": []},
        }
        self._chart = ui.echart(
            {
                "title": {"text": title, "left": 0, "textStyle": {**_GREY, "fontWeight": "normal"}},
                "grid": {"left": 56, "right": 16, "top": 36, "bottom": 24},
                "xAxis": {**axis, "min": 0, "splitLine": {"show": False}},
                "yAxis": {**axis, "scale": True, "splitNumber": 4},
                "tooltip": {"trigger": "axis", "confine": True},
                "series": [line],
            }
        ).style("height: 190px; width: 100%")

    def add(self, x: float, y: float | None) -> None:
        if y is None:
            return
        self._points.append([x, y])
        if len(self._points) > 2 * _MOST:
            self._points = self._points[::2]

    def mark(self, x: float, text: str) -> None:
        """Mark where a hyperparameter changed."""
        label: dict[str, Json] = {"formatter": text, "fontSize": 10, "color": "#888", "position": "insideEndTop"}
        self._marks = [*self._marks[-9:], {"xAxis": x, "label": label, "lineStyle": {"color": "#e08a2e"}}]

    def clear(self) -> None:
        self._points = []
        self._marks = []
        self.flush()

    def flush(self) -> None:
        shown = self._points[:: max(1, len(self._points) // _MOST)]
        series = self._chart.options["series"][0]
        series["data"], series["markLine"]["data"] = shown, self._marks
        self._chart.update()
