"""The run registry: `registry.json`, one line per run, newest first. A cache of what the run folders hold."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Unpack, cast

from gymlab.core.clock import Clock
from gymlab.core.errors import RunError
from gymlab.runs import files
from gymlab.runs.locks import waiting_lock
from gymlab.runs.paths import REGISTRY, REGISTRY_LOCK, RunPaths, prepare_runs_folder, valid_run_id
from gymlab.runs.records import ManifestRecord, RegistryEntry
from gymlab.runs.status import read_record, read_status

log = logging.getLogger(__name__)
_ENCODER = json.JSONEncoder(allow_nan=False)


def summarize(paths: RunPaths) -> RegistryEntry:
    """The registry entry of a run, read from its folder."""
    manifest = cast("ManifestRecord", read_record(paths.manifest))
    status = read_status(paths)
    summary = status.get("summary")
    summary = summary if isinstance(summary, dict) else {}
    clock: Mapping[str, object] | None = status.get("clock")
    clock = clock if isinstance(clock, dict) else {}
    env = manifest.get("env")
    entry = {
        "id": paths.run_id,
        "name": manifest.get("recipe"),
        "env": env.get("id") if isinstance(env, dict) else env,
        "algorithm": manifest.get("algorithm"),
        "seed": manifest.get("seed"),
        "created": manifest.get("created"),
        "status": status["status"],
        "stop_reason": status.get("stop_reason"),
        **{name: clock.get(name) for name in Clock._fields},
        "score": summary.get("score"),
        "solved": summary.get("solved"),
        "group": manifest.get("group"),
        "note": read_note(paths, manifest),
        "tags": read_tags(paths),
    }
    return cast("RegistryEntry", entry)


def read_tags(paths: RunPaths) -> list[str]:
    """The run's tags: as last changed, else those it was started with."""
    tags = read_record(paths.tags).get("tags")
    if tags is None:
        tags = read_record(paths.manifest).get("tags")
    return [str(tag) for tag in tags] if isinstance(tags, list) else []


def read_note(paths: RunPaths, manifest: ManifestRecord) -> str | None:
    """The run's note: as last changed, else the one it was started with."""
    note = read_record(paths.tags).get("note", manifest.get("note"))
    return str(note) if note else None


class Registry:
    """All runs of a folder. Writers take a lock and replace the file atomically; readers need no lock."""

    def __init__(self, runs_root: Path) -> None:
        self.root = runs_root
        self.path = runs_root / REGISTRY
        self.notes: list[str] = []  # about repairs

    def entries(self) -> list[RegistryEntry]:
        """The stored entries, newest first; rebuilt from the folders if the file is damaged."""
        return self._read()[0]

    def _read(self) -> tuple[list[RegistryEntry], dict[int, str]]:
        """The entries, and their text lines by the entry's `id()`."""
        try:
            raw = files.read_bytes(self.path, files.MAX_JSON_BYTES)
            entries = _parse(raw)
            return entries, _lines(raw, entries)
        except FileNotFoundError:
            return [], {}
        except RunError as error:
            self._note(f"{error}: rebuilt from the run folders")
            return self._scan([]), {}

    def runs(self) -> list[RegistryEntry]:
        """The runs whose folders exist, registered or not, with the status of running ones checked."""
        known = self.entries()
        present = self._folders()
        live = [self._checked(entry) for entry in known if entry["id"] in present]
        unregistered = [RunPaths(self.root / run_id) for run_id in present - {entry["id"] for entry in known}]
        found = [summarize(paths) for paths in unregistered if paths.exists]
        return _newest_first([*found, *live]) if found else live

    def _checked(self, entry: RegistryEntry) -> RegistryEntry:
        return summarize(RunPaths(self.root / entry["id"])) if entry.get("status") == "running" else entry

    def register(self, summary: RegistryEntry) -> None:
        """Add a run's entry at the top, or replace it in place."""
        self._change(lambda entries: _put(entries, summary))

    def refresh(self, paths: RunPaths) -> None:
        """Update a run's entry from its folder."""
        self.register(summarize(paths))

    def update(self, run_id: str, **fields: Unpack[RegistryEntry]) -> None:
        """Change some fields of a run's entry; RunError if there is no such run."""

        def change(entries: list[RegistryEntry]) -> list[RegistryEntry]:
            known = next((entry for entry in entries if entry["id"] == run_id), None)
            if known is None and valid_run_id(run_id) and (paths := RunPaths(self.root / run_id)).exists:
                known = summarize(paths)
            if known is None:
                raise RunError(f"run '{run_id}' is not in {self.path}")
            return _put(entries, {**known, **fields})

        self._change(change)

    def remove(self, run_id: str) -> None:
        """Remove a run's entry; its folder is not touched."""
        self._change(lambda entries: [entry for entry in entries if entry["id"] != run_id])

    def set_tags(self, paths: RunPaths, change: Callable[[list[str]], list[str]]) -> list[str]:
        """Change a run's tags, in its folder (so that they survive a rebuild) and in its entry."""

        def both(entries: list[RegistryEntry]) -> list[RegistryEntry]:
            tags = change(read_tags(paths))
            files.write_json(paths.tags, {**read_record(paths.tags), "tags": tags})
            return _put(entries, summarize(paths))

        self._change(both)
        return read_tags(paths)

    def set_note(self, paths: RunPaths, note: str) -> None:
        """Change a run's note, in its folder and in its entry."""

        def both(entries: list[RegistryEntry]) -> list[RegistryEntry]:
            files.write_json(paths.tags, {"tags": read_tags(paths), "note": note})
            return _put(entries, summarize(paths))

        self._change(both)

    def reindex(self) -> list[RegistryEntry]:
        """Rebuild the file from the run folders."""
        self._change(self._scan)
        files.sweep_temp_files(self.root)
        return self.entries()

    def _scan(self, known: list[RegistryEntry]) -> list[RegistryEntry]:
        order = {entry["id"]: -place for place, entry in enumerate(known)}
        found = [RunPaths(self.root / run_id) for run_id in self._folders()]
        entries = [summarize(paths) for paths in found if paths.exists]
        entries.sort(key=lambda entry: (order.get(entry["id"], 0), entry["id"]), reverse=True)
        return _newest_first(entries)

    def _folders(self) -> set[str]:
        with contextlib.suppress(FileNotFoundError), os.scandir(self.root) as found:
            return {e.name for e in found if valid_run_id(e.name) and e.is_dir(follow_symlinks=False)}
        return set()

    def _change(self, change: Callable[[list[RegistryEntry]], list[RegistryEntry]]) -> None:
        prepare_runs_folder(self.root)
        with waiting_lock(self.root / REGISTRY_LOCK):
            entries, written = self._read()
            # Not fsynced: an entry lost in a power cut can be rebuilt from the folders.
            files.write_text(self.path, _format(change(entries), written), durable=False)

    def _note(self, text: str) -> None:
        self.notes.append(text)
        log.warning("%s", text)


def _put(entries: list[RegistryEntry], entry: RegistryEntry) -> list[RegistryEntry]:
    for place, known in enumerate(entries):
        if known["id"] == entry["id"]:
            return [*entries[:place], entry, *entries[place + 1 :]]
    return [entry, *entries]


def _newest_first(entries: list[RegistryEntry]) -> list[RegistryEntry]:
    return sorted(entries, key=lambda entry: str(entry.get("created") or ""), reverse=True)


def _parse(raw: bytes) -> list[RegistryEntry]:
    try:
        entries = json.loads(raw.decode())
    except (ValueError, RecursionError) as error:
        raise RunError(f"{REGISTRY} is damaged ({error})") from error
    if not isinstance(entries, list) or not all(isinstance(e, dict) and isinstance(e.get("id"), str) for e in entries):
        raise RunError(f"{REGISTRY} is damaged (not a list of runs)")
    return entries


def _lines(raw: bytes, entries: list[RegistryEntry]) -> dict[int, str]:
    """The text line of each entry if the file has our layout, so that unchanged entries need no encoding."""
    lines = [line.removesuffix(",") for line in raw.decode().split("\n")[1:-2]]
    ours = len(lines) == len(entries) and all(line.startswith("{") and line.endswith("}") for line in lines)
    return dict(zip(map(id, entries), lines, strict=True)) if ours else {}


def _format(entries: list[RegistryEntry], written: Mapping[int, str]) -> str:
    """One run per line: quick to write, and readable with nothing but a pager."""
    lines = ",\n".join(written.get(id(entry)) or _line(entry) for entry in entries)
    return f"[\n{lines}\n]\n" if entries else "[]\n"


def _line(entry: RegistryEntry) -> str:
    try:
        return _ENCODER.encode(entry)
    except (ValueError, TypeError):
        return files.strict_json(entry)
