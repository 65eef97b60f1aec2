"""The frame of every page: title, navigation, light or dark mode; error notifications and the clipboard.

A page is a function decorated with `ui.page(path)` whose body is `with frame(site, "Title"): ...`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nicegui import ui

from gymlab.core.errors import GymlabError
from gymlab.web.charts.drawing import SCRIPT
from gymlab.web.pages import Site

_COOKIE = "gymlab_dark"
_MODES = {"auto": None, "light": False, "dark": True}
_ICONS = {"auto": "brightness_auto", "light": "light_mode", "dark": "dark_mode"}
_STYLE = """
.gl-page { width: 100%; max-width: 1600px; margin: 0 auto; padding: 0.75rem; gap: 0.75rem; }
.gl-card { border: 1px solid rgba(128,128,128,.3); border-radius: 6px; padding: 0.6rem; min-width: 0; }
.gl-mono { font-family: ui-monospace, monospace; font-size: 0.8rem; white-space: pre-wrap; overflow-wrap: anywhere; }
.gl-faint { opacity: .7; font-size: .85rem; }
.gl-charts { display: grid; width: 100%; gap: .75rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 380px), 1fr)); }
.nicegui-content { padding: 0; }
.gl-page .q-expansion-item .q-expansion-item__content > * { padding: 0.25rem 0; }
.gl-page .q-tabs { max-width: 100%; }
:focus-visible { outline: 2px solid #5898d4; outline-offset: 1px; }
body.body--light .q-header { background: #2c4a63; }
body.body--dark .q-header { background: #1d2a35; }
"""


@contextmanager
def frame(site: Site, title: str) -> Iterator[ui.column]:
    """Title and navigation; elements made inside the `with` block go below them."""
    ui.page_title(f"{title} · gymlab")
    ui.add_css(_STYLE)
    ui.add_head_html(f"<script>{SCRIPT}</script>")
    chosen = _chosen()
    dark = ui.dark_mode(_MODES[chosen])
    with ui.header().classes("items-center px-3 py-1 gap-1 no-wrap"):
        with ui.link(target="/").classes("no-underline text-white"):
            ui.label("gymlab").classes("text-base font-bold")
        with ui.element("nav").classes("row items-center gap-1").props('aria-label="Pages"'):
            for link in site.links:
                _navigation(link.title, link.path, link.icon)
        ui.space()
        _mode_button(dark, chosen)
    with ui.column().classes("gl-page") as content:
        ui.label(title).classes("text-lg font-semibold").props("role=heading aria-level=1")
        yield content


@contextmanager
def show_errors() -> Iterator[None]:
    """Show a GymlabError as a notification on the page."""
    try:
        yield
    except GymlabError as error:
        ui.notify(str(error)[:500], type="negative", multi_line=True)


def copy_to_clipboard(text: str, what: str) -> None:
    """Copy a text; browsers allow that on localhost and over https only."""
    ui.clipboard.write(text)
    ui.notify(f"{what} copied")


def _navigation(title: str, path: str, icon: str) -> None:
    with (
        ui.link(target=path)
        .classes("no-underline text-white row items-center gap-1 px-2")
        .props(f'aria-label="{title}"')
    ):
        ui.icon(icon).classes("text-lg")
        ui.label(title).classes("gt-xs")


def _chosen() -> str:
    request = ui.context.client.request
    known = request.cookies.get(_COOKIE, "auto") if request is not None else "auto"
    return known if known in _MODES else "auto"


def _mode_button(dark: ui.dark_mode, chosen: str) -> None:
    button = ui.button(icon=_ICONS[chosen]).props('flat round dense color=white aria-label="Light, dark or automatic"')
    state = {"mode": chosen}

    def turn() -> None:
        names = list(_MODES)
        mode = state["mode"] = names[(names.index(state["mode"]) + 1) % len(names)]
        dark.set_value(_MODES[mode])
        button.props(f"icon={_ICONS[mode]}")
        ui.run_javascript(f"document.cookie = '{_COOKIE}={mode}; path=/; max-age=31536000; samesite=lax'")

    button.on_click(turn)
