"""Every setting of a run, those that are not the default first."""

from __future__ import annotations

from asyncio import to_thread

from nicegui import ui

from gymlab.core.types import Json, JsonObject
from gymlab.reports.report import report_json
from gymlab.reports.sections import changed_settings
from gymlab.runs.status import read_record
from gymlab.web.live_updates import LiveRun, plain_text
from gymlab.web.run_commands import recipe_settings

_COLUMNS: list[dict[str, Json]] = [
    {"name": "key", "label": "setting", "field": "key", "align": "left", "sortable": True},
    {"name": "value", "label": "value", "field": "value", "align": "left"},
    {"name": "recipe", "label": "in the recipe", "field": "recipe", "align": "left", "sortable": True},
    {"name": "default", "label": "default", "field": "default", "align": "left"},
]


class SettingsPanel:
    def __init__(self, view: LiveRun) -> None:
        self._view = view
        self._built = False

    def build(self) -> None:
        self._place = ui.column().classes("w-full gap-2")

    async def refresh(self) -> None:
        if self._built:
            return
        self._built = True
        rows = await to_thread(settings_rows, self._view)
        with self._place:
            self._lines()
            search = ui.input(placeholder="Filter").props('dense outlined clearable aria-label="Filter settings"')
            table = ui.table(rows=rows, columns=_COLUMNS, row_key="key", pagination=0).classes("w-full")
            table.props("dense flat hide-bottom wrap-cells").bind_filter_from(search, "value")
        await self._compare(table)

    async def _compare(self, table: ui.table) -> None:
        """Show the recipe's present value where it differs; a child process reads it, which takes a second."""
        name = str(self._view.manifest.get("recipe"))
        of_recipe = await recipe_settings(self._view.paths, name)
        if self._place.is_deleted:  # the page was closed
            return
        other = {
            key: of_recipe[key] for key, value in self._view.settings.items() if of_recipe.get(key, value) != value
        }
        for row in table.rows:
            row["recipe"] = plain_text(other[row["key"]], 500) or "none" if row["key"] in other else ""
        table.update()
        if of_recipe:
            with self._place:
                ui.label(f"{len(other)} settings differ from {name} as it is today.").classes("gl-faint")

    def _lines(self) -> None:
        """The command line, notes, and the settings changed at a resume."""
        manifest = self._view.manifest
        command = manifest.get("command")
        if isinstance(command, list):
            ui.label("started by: gymlab " + plain_text(" ".join(map(str, command[1:])), 1000)).classes("gl-mono")
        for note in _list(manifest.get("notes")):
            ui.label(plain_text(note, 500)).classes("gl-faint")
        for change in _list(manifest.get("changes")):
            if isinstance(change, list) and len(change) == 3:
                key, before, after = (plain_text(part, 200) for part in change)
                ui.label(f"changed: {key}: {before} → {after}").classes("gl-faint")


def settings_rows(view: LiveRun) -> list[dict[str, str]]:
    """All settings; first those that differ from their default, with the default."""
    changed = _changed(view)
    ranked = sorted(view.settings.items(), key=lambda pair: pair[0] not in changed)
    return [
        {
            "key": plain_text(key, 100),
            "value": plain_text(value, 500),
            "default": plain_text(changed[key], 500) if key in changed else "",
        }
        for key, value in ranked
    ]


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _changed(view: LiveRun) -> JsonObject:
    """Defaults of the changed settings, from the run's report: an algorithm's own defaults need its import, which
    imports JAX.
    """
    settings = read_record(report_json(view.paths)).get("settings")
    noted = settings.get("changed") if isinstance(settings, dict) else None
    if isinstance(noted, dict):
        return {key: pair.get("default") for key, pair in noted.items() if isinstance(pair, dict)}
    from gymlab.recipes.keys import default_settings

    defaults = default_settings(view.settings, of_algorithm=False)
    return {key: default for key, (_, default) in changed_settings(view.settings, defaults).items()}
