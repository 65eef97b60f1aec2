"""Buttons for the selected runs of the table: compare, tag, note, copy the command, delete."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Awaitable, Callable

from nicegui import ui

from gymlab.core.errors import UserError
from gymlab.runs.manifest import read_manifest
from gymlab.runs.paths import RunPaths, valid_run_id
from gymlab.runs.registry import Registry, read_note
from gymlab.runs.store import remove_run
from gymlab.web.page_frame import copy_to_clipboard, show_errors
from gymlab.web.pages import Site
from gymlab.web.run_commands import reproduce

MOST_COMPARED = 20
LONGEST_NOTE = 2000


class SelectedRuns:
    """The buttons above the table."""

    def __init__(self, site: Site, refresh: Callable[[], Awaitable[None]]) -> None:
        self._site = site
        self._refresh = refresh
        self._chosen: list[str] = []
        self._buttons = [
            self._button("compare_arrows", "Compare", self._compare),
            self._button("sell", "Tag", self._tag),
            self._button("edit_note", "Note", self._note),
            self._button("content_copy", "Copy the command", self._copy),
            self._button("delete", "Delete", self._delete),
        ]

    def _button(self, icon: str, title: str, act: Callable[[], Awaitable[None] | None]) -> ui.button:
        button = ui.button(icon=icon, on_click=act).props(f'flat dense aria-label="{title}"').tooltip(title)
        button.disable()
        return button

    def choose(self, run_ids: list[str]) -> None:
        self._chosen = [run_id for run_id in run_ids if valid_run_id(run_id)]
        for button in self._buttons:
            button.set_enabled(bool(self._chosen))

    def _paths(self) -> list[RunPaths]:
        return [self._site.run(run_id) for run_id in self._chosen]

    def _compare(self) -> None:
        ui.navigate.to(f"/compare?runs={','.join(self._chosen[:MOST_COMPARED])}")

    async def _copy(self) -> None:
        with show_errors():
            found = await to_thread(lambda: [reproduce(paths) for paths in self._paths()])
            copy_to_clipboard("\n".join(found), "The command")

    async def _delete(self) -> None:
        with ui.dialog() as dialog, ui.card():
            ui.label(f"Delete {len(self._chosen)} run{'s' if len(self._chosen) > 1 else ''} for good?")
            for run_id in self._chosen[:10]:
                ui.label(run_id).classes("gl-mono")
            with ui.row():
                ui.button("Keep", on_click=lambda: dialog.submit(False)).props("flat")
                ui.button("Delete", on_click=lambda: dialog.submit(True)).props("color=negative")
        if await dialog:
            with show_errors():
                for paths in self._paths():
                    await to_thread(remove_run, paths)
            self.choose([])
            await self._refresh()

    async def _tag(self) -> None:
        name = await self._ask("Tag (with a - before it: take it away)", "", 65)
        if name is None:
            return
        with show_errors():
            tag = name.removeprefix("-")
            if not valid_run_id(tag):
                raise UserError(f"tag {tag[:80]!r} is not valid: letters, digits, '.', '_' and '-', at most 64")
            for paths in self._paths():
                await to_thread(_set_tag, paths, tag, name.startswith("-"))
        await self._refresh()

    async def _note(self) -> None:
        with show_errors():
            first = self._paths()[0]
            text = await self._ask("Note", read_note(first, read_manifest(first)) or "", LONGEST_NOTE)
            if text is None:
                return
            for paths in self._paths():
                await to_thread(Registry(self._site.runs_dir).set_note, paths, text)
        await self._refresh()

    async def _ask(self, title: str, before: str, most: int) -> str | None:
        with ui.dialog() as dialog, ui.card().classes("w-96"):
            field = ui.input(title, value=before).props(f"autofocus maxlength={most} counter").classes("w-full")
            field.on("keydown.enter", lambda: dialog.submit(field.value))
            with ui.row():
                ui.button("Cancel", on_click=dialog.close).props("flat")
                ui.button("Save", on_click=lambda: dialog.submit(field.value))
        text = await dialog
        if text is None:
            return None
        if len(str(text)) > most:
            ui.notify(f"at most {most} letters", type="negative")
            return None
        return str(text).strip()


def _set_tag(paths: RunPaths, tag: str, away: bool) -> None:
    Registry(paths.root.parent).set_tags(paths, lambda old: sorted({*old} - {tag} if away else {*old, tag}))
