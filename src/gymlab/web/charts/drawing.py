"""How charts get to the browser: as one text, made once for all who look.

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
    """A chart as a text."""
    return json.dumps(options, allow_nan=False, separators=(",", ":"))


def empty_chart(height: int) -> ui.echart:
    """A place for a chart."""
    return ui.echart({"animation": False, "series": []}).style(f"height: {height}px; width: 100%")


def draw(charts: Sequence[tuple[ui.echart, str]]) -> None:
    """Show charts, all of one page, in one message."""
    if charts:
        items = ",".join(f"[{chart.id},{text}]" for chart, text in charts)
        charts[0][0].client.run_javascript(f"glDraw([{items}])")
