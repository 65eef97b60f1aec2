"""Timeline of an episode: values, rewards, advantages and entropy over the steps, the current step marked."""

from __future__ import annotations

from nicegui import events, ui

from gymlab.web.charts.options import Options
from gymlab.web.inspect.view_state import InspectorState
from gymlab.web.workers.step_table import EpisodeTable, Number

_PANELS: tuple[tuple[str, tuple[tuple[str, Number], ...]], ...] = (
    ("value", (("value", "value"), ("return from here", "return_to_go"), ("baseline", "baseline"))),
    ("reward", (("reward", "reward"), ("as learnt from", "train_reward"))),
    ("advantage", (("advantage", "advantage"), ("GAE", "gae"), ("TD error", "td_error"))),
    ("entropy, probability", (("entropy", "entropy"), ("probability", "probability"))),
)
_HEIGHT = 120  # pixels of a panel
_SMALL = {"fontSize": 11, "color": "#888"}  # readable in light and dark
_COLOURS = (
    "#5898d4",
    "#8cb84c",
    "#8a6d3b",
    "#e08a2e",
    "#c0504d",
    "#d4b106",
    "#d1549b",
    "#7e57c2",
    "#2a9d8f",
    "#6b7280",
    "#00838f",
    "#ad1457",
)
# A click anywhere in a panel is a step; ECharts itself only tells of clicks on points.
_CLICKS = """
(() => { const at = getElement(%d); const listen = () => {
  if (!at.chart) { setTimeout(listen, 50); return; }
  at.chart.getZr().on('click', (e) => { for (let i = 0; i < %d; i++) {
    if (at.chart.containPixel({gridIndex: i}, [e.offsetX, e.offsetY])) {
      const x = at.chart.convertFromPixel({xAxisIndex: i}, e.offsetX);
      emitEvent('gl-inspect-step', Math.round(x)); return; } } }); };
  listen(); })()
"""


class Timeline:
    def __init__(self, looking: InspectorState) -> None:
        self._state = looking
        with ui.column().classes("gl-card w-full gap-0"):
            height = len(_PANELS) * _HEIGHT + 50
            self._chart = (
                ui.echart({"series": []}).style(f"height: {height}px; width: 100%").props("data-part=timeline")
            )
        ui.on("gl-inspect-step", self._clicked)
        ui.timer(0.1, lambda: ui.run_javascript(_CLICKS % (self._chart.id, len(_PANELS))), once=True)
        looking.on_table(self._new_table)
        looking.on_step(self._mark)

    def _new_table(self) -> None:
        table = self._state.table
        assert table is not None
        self._chart.options.clear()
        self._chart.options.update(options(table))
        self._chart.update()

    def _mark(self) -> None:
        """Move the marker without sending the data again."""
        marks = [{"id": panel, "markLine": _line(self._state.step)} for panel, _ in _PANELS]
        self._chart.run_chart_method("setOption", {"series": marks})

    def _clicked(self, event: events.GenericEventArguments) -> None:
        if isinstance(event.args, int | float):
            self._state.go(int(event.args))


def _line(step: int) -> Options:
    style = {"color": "#e08a2e", "type": "solid", "width": 1.5}
    return {
        "data": [{"xAxis": step}],
        "symbol": "none",
        "silent": True,
        "animation": False,
        "label": {"show": False},
        "lineStyle": style,
    }


def options(table: EpisodeTable) -> Options:
    """ECharts options: stacked panels with a shared axis pointer."""
    steps = [row["step"] for row in table.rows]
    grids = []
    x_axes = []
    y_axes = []
    series = []
    for place, (panel, columns) in enumerate(_PANELS):
        grids.append({"left": 52, "right": 12, "top": 40 + place * _HEIGHT, "height": _HEIGHT - 28})
        last = place == len(_PANELS) - 1
        x_axes.append(
            {
                "type": "value",
                "gridIndex": place,
                "min": 0,
                "max": max(1, len(steps) - 1),
                "axisLabel": {**_SMALL, "show": last},
                "splitLine": {"show": False},
            }
        )
        y_axes.append(
            {
                "type": "value",
                "gridIndex": place,
                "scale": True,
                "splitNumber": 3,
                "axisLabel": _SMALL,
                "splitLine": {"lineStyle": {"opacity": 0.3}},
            }
        )
        lines = [(title, table.column(name)) for title, name in columns]
        if panel == "reward":
            lines += _parts(table)
        for order, (title, values) in enumerate(lines):
            own = {"id": panel, "markLine": _line(0)} if order == 0 else {"id": f"{panel}-{order}"}
            series.append(
                {
                    "type": "line",
                    "name": title,
                    "xAxisIndex": place,
                    "yAxisIndex": place,
                    "symbol": "none",
                    "data": list(map(list, zip(steps, values, strict=True))),
                    "lineStyle": {"width": 1.2},
                    "animation": False,
                    **own,
                }
            )
    return {
        "color": list(_COLOURS),
        "grid": grids,
        "xAxis": x_axes,
        "yAxis": y_axes,
        "series": series,
        "axisPointer": {"link": [{"xAxisIndex": "all"}]},
        "tooltip": {"trigger": "axis", "confine": True, "textStyle": {"fontSize": 11}},
        "legend": {"type": "scroll", "top": 0, "textStyle": _SMALL, "itemHeight": 8},
        "title": [
            {"text": panel, "left": 56, "top": 21 + place * _HEIGHT, "textStyle": {**_SMALL, "fontWeight": "normal"}}
            for place, (panel, _) in enumerate(_PANELS)
        ],
    }


def _parts(table: EpisodeTable) -> list[tuple[str, list[float | None]]]:
    names = list(dict.fromkeys(name for row in table.rows for name in row["components"]))
    return [(f"part: {name}", [row["components"].get(name) for row in table.rows]) for name in names]
