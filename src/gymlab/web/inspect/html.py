"""Small tables and bars as HTML: one message per card and step. Everything from a run is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


def number(value: Any) -> str:
    """A number as shown; the exact one is in its title."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def cell(value: Any, key: str = "") -> str:
    """A table's cell; `key` is how tests and scripts find it."""
    mark = f' data-key="{escape(key)}"' if key else ""
    return f'<td class="gl-number"{mark} title="{escape(str(value))}">{escape(number(value))}</td>'


def bound(value: float | None) -> str:
    """A cell for one end of a range: there to compare with, not to be exact."""
    shown = "–" if value is None else f"{value:.4g}"
    return f'<td class="gl-number gl-faint">{shown}</td>'


def table(rows: Iterable[tuple[str, Sequence[str]]], head: Sequence[str] = ()) -> str:
    """Rows of a name and ready-made cells."""
    top = f"<tr>{''.join(f'<th>{escape(name)}</th>' for name in head)}</tr>" if head else ""
    body = "".join(f"<tr><th>{escape(name)}</th>{''.join(cells)}</tr>" for name, cells in rows)
    return f'<div class="gl-table-in"><table class="gl-table">{top}{body}</table></div>'


def bars(names: Sequence[str], shares: Sequence[float], chosen: int | None, legal: Sequence[bool] | None = None) -> str:
    """Probabilities, the chosen one bold."""
    lines = []
    for place, (name, share) in enumerate(zip(names, shares, strict=True)):
        kind = "gl-bar gl-chosen" if place == chosen else "gl-bar"
        shown = f"{name} (illegal)" if legal is not None and not legal[place] else name
        lines.append(
            f'<div class="{kind}" data-key="p{place}" title="{share!r}"><span>{escape(shown)}</span>'
            f'<div><div style="width:{100 * share:.2f}%"></div></div><span class="gl-number">{share:.4f}</span></div>'
        )
    return "".join(lines)


STYLE = """
.gl-table { border-collapse: collapse; font-size: .82rem; width: 100%; }
.gl-table th { text-align: left; font-weight: normal; opacity: .8; padding: 1px 6px 1px 0; }
.gl-table th:first-child { min-width: 5.5rem; }
.gl-table-in { overflow-x: auto; }
.gl-number { font-family: ui-monospace, monospace; text-align: right; white-space: nowrap; }
.gl-table td { padding: 1px 4px; }
.gl-bar { display: grid; grid-template-columns: minmax(5rem, 2fr) 3fr 4rem; gap: .4rem; font-size: .82rem; }
.gl-bar > div { background: rgba(128,128,128,.2); height: .9em; align-self: center; }
.gl-bar > div > div { background: #5898d4; height: 100%; }
.gl-table tr:first-child th:not(:first-child) { text-align: right; padding: 1px 4px; }
.gl-transport { position: sticky; bottom: 0; z-index: 5; background: #fff; }
body.body--dark .gl-transport { background: #121212; }
.gl-chosen { font-weight: bold; }
.gl-chosen > div > div { background: #e08a2e; }
"""
