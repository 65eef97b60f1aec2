"""Sends charts to the browser as JSON text, rendered once for all clients.

The library would watch every number of a chart's options for changes, which costs a hundred times what drawing does.
A text of JSON inside a script is data: its strings are quoted, and it never passes through a page's markup.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from nicegui import ui

from gymlab.web.charts.options import Options

SCRIPT = """
window.glDraw = items => items.forEach(([id, options, tries = 0]) => {
  const chart = getElement(id)?.chart;
  if (!chart) { if (tries < 100) setTimeout(() => glDraw([[id, options, tries + 1]]), 50); return; }
  const before = chart.getOption();
  chart.setOption(options, {notMerge: !before || before.series?.length !== options.series.length});
});
"""


def text_of(options: Options) -> str:
    """Chart options as JSON."""
    return json.dumps(options, allow_nan=False, separators=(",", ":"))


def empty_chart(height: int) -> ui.echart:
    """An empty chart element."""
    return ui.echart({"animation": False, "series": []}).style(f"height: {height}px; width: 100%")


def draw(charts: Sequence[tuple[ui.echart, str]]) -> None:
    """Draw charts of one page with one message."""
    if charts:
        items = ",".join(f"[{chart.id},{text}]" for chart, text in charts)
        charts[0][0].client.run_javascript(f"glDraw([{items}])")
