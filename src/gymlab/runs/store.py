"""The writer of a run: creates or opens its folder, holds its lock and writes its status."""

from __future__ import annotations

import contextlib
import logging
import shutil
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Unpack, cast

from gymlab.core.errors import GymlabError, RunError, UserError
from gymlab.runs import checkpoints, files
from gymlab.runs.locks import Owner, RunLock, RunLocked
from gymlab.runs.paths import RunPaths, new_run_id, prepare_runs_folder, run_paths, stored_name
from gymlab.runs.records import ManifestRecord, Status, StatusRecord, SummaryRecord
from gymlab.runs.redact import redact, redact_tree
from gymlab.runs.registry import Registry
from gymlab.runs.status import now, read_record
from gymlab.runs.videos import recorder_of

if TYPE_CHECKING:
    from gymlab.core.clock import Clock

log = logging.getLogger(__name__)
HEARTBEAT_SECONDS = 5.0


class RunStore:
    """A locked run. Calls: `create` or `open`, `start`, `heartbeat` ..., `end`, `close`; `discard` before `start`."""

    def __init__(self, paths: RunPaths, lock: RunLock, *, fresh: bool) -> None:
        self.paths = paths
        self._lock = lock
        self._fresh = fresh
        self._status = cast("StatusRecord", read_record(paths.status))
        self._last_beat = -HEARTBEAT_SECONDS
        self._started = False

    @classmethod
    def create(cls, runs_root: str | Path, run_id: str | None = None, *, name: str) -> RunStore:
        """A new run folder, locked. `name` (`CartPole-v1:ppo`) gives the id when none is asked for."""
        root = Path(runs_root)
        if run_id is not None:
            run_paths(root, run_id)  # an invalid id must not create the folder of all runs
        prepare_runs_folder(root)
        paths = _claim(root, run_id, name)
        lock = RunLock(paths.lock)
        lock.acquire()
        return cls(paths, lock, fresh=True)

    @classmethod
    def open(cls, run: str | Path | RunPaths) -> RunStore:
        """An existing run, locked for resuming; leftovers of a killed process are removed."""
        paths = run if isinstance(run, RunPaths) else RunPaths(Path(run))
        if not paths.exists:
            raise UserError(f"'{paths.root}' is not a run folder: it has no manifest.json")
        paths.inside(paths.checkpoints)
        lock = RunLock(paths.lock)
        lock.acquire()
        with contextlib.ExitStack() as cleanup:
            cleanup.callback(lock.release)
            files.sweep_temp_files(paths.root)
            checkpoints.recover(paths)
            cleanup.pop_all()
        return cls(paths, lock, fresh=False)

    @property
    def run_id(self) -> str:
        return self.paths.run_id

    @property
    def registry(self) -> Registry:
        return Registry(self.paths.root.parent)

    @property
    def status(self) -> StatusRecord:
        """The record as this process last wrote it."""
        return self._status.copy()

    def write_manifest(self, manifest: ManifestRecord) -> None:
        files.write_json(self.paths.manifest, {"run_id": self.run_id, **redact_tree(dict(manifest))})

    def write_recipe(self, text: str) -> None:
        """The run's recipe, without secrets already: masking YAML as mere text would break it."""
        files.write_text(self.paths.recipe, text)

    def start(self) -> None:
        """Mark the run as running and register it; it can no longer be discarded."""
        if not self.paths.manifest.is_file():
            raise RunError(f"run '{self.run_id}' cannot start without a manifest")
        owner = Owner.me()
        self._status |= {
            "status": "running",
            "stop_reason": None,
            "started": self._status.get("started") or now(),
            "ended": None,
            "sessions": self._status.get("sessions", 0) + 1,
            "pid": owner.pid,
            "host": owner.host,
        }
        self._write_status()
        self._fresh = False
        self._started = True
        self._update_registry()

    def heartbeat(self, clock: Clock) -> None:
        """Note the clock, and write the status at most every few seconds: may be called every update."""
        self._status["clock"] = clock.as_json()
        tick = time.monotonic()
        if tick - self._last_beat < HEARTBEAT_SECONDS:
            return
        self._last_beat = tick
        self._write_status(durable=False)

    def note(self, **summary: Unpack[SummaryRecord]) -> None:
        """Add results (score, solved, eval ...) to the summary in the status and the registry."""
        self._status["summary"] = {**self._status.get("summary", {}), **redact_tree(summary)}
        self._write_status()
        self._update_registry()

    def end(self, status: Status, stop_reason: str, clock: Clock | None = None) -> None:
        """Write the final status of this session."""
        self._status |= {"status": status, "stop_reason": redact(stop_reason), "ended": now()}
        if clock is not None:
            self._status["clock"] = clock.as_json()
        self._write_status()
        self._started = False
        self._update_registry()

    def fail(self, error: BaseException) -> bool:
        """Write the final status of a session that ends with this error; False if it has not started."""
        if self._started:
            self.end("failed", _reason(error))
            return True
        return False

    def discard(self) -> None:
        """Remove the folder of a run that has not started."""
        if not self._fresh:
            raise RunError(f"run '{self.run_id}' has started: it is not discarded")
        self.paths.manifest.unlink(missing_ok=True)  # without it the folder is not a run
        self._lock.release()  # first, because Windows removes no open file
        shutil.rmtree(self.paths.root)

    def close(self) -> None:
        """Release the lock."""
        self._lock.release()

    def __enter__(self) -> RunStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._fresh:
                self.discard()
            elif self._started:
                stopped = error is None or isinstance(error, KeyboardInterrupt | SystemExit)
                self.end("stopped" if stopped else "failed", _reason(error))
        finally:
            self.close()

    def _write_status(self, *, durable: bool = True) -> None:
        self._status["beats"] = self._status.get("beats", 0) + 1  # monotonic, unlike the heartbeat's time of day
        self._status["heartbeat"] = now()
        files.write_json(self.paths.status, self._status, durable=durable)

    def _update_registry(self) -> None:
        try:
            self.registry.refresh(self.paths)
        except OSError as error:  # the registry can be rebuilt from the folders, a run cannot
            log.warning("the run registry could not be updated (%s): `gymlab runs reindex` repairs it", error)


def _reason(error: BaseException | None) -> str:
    if error is None:
        return "ended by its caller"
    return str(error) if isinstance(error, GymlabError) else f"{type(error).__name__}: {error}".removesuffix(": ")


def remove_run(paths: RunPaths) -> None:
    """Delete a run; RunLocked if a process is writing it or its films."""
    if (recorder := recorder_of(paths)) is not None:
        raise RunLocked(f"films of run '{paths.run_id}' are still being made by {recorder}: wait a moment, or stop it")
    store = RunStore.open(paths)
    paths.manifest.unlink()  # without it the folder is not a run
    store.close()  # first, because Windows removes no open file
    shutil.rmtree(paths.root)
    store.registry.remove(paths.run_id)


def _claim(root: Path, run_id: str | None, name: str) -> RunPaths:
    if run_id is not None and (other := stored_name(root, run_id)) != run_id:
        raise UserError(f"run id '{run_id}' differs from that of run '{other}' in case only: choose another")
    while True:
        paths = run_paths(root, run_id or new_run_id(name))
        try:
            paths.root.mkdir()
            return paths
        except FileExistsError as error:
            if run_id is not None:
                raise UserError(
                    f"run id '{run_id}' exists already: choose another, or go on with it by --resume {run_id}"
                ) from error
        except OSError as error:
            raise UserError(f"cannot make a run in '{root}': {error.strerror}") from error
