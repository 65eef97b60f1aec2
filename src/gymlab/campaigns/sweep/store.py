"""TrialStore: the trials of a sweep and the process that owns each, in Optuna's storage. Only this must survive a kill.

A trial is added in one write and claimed by an atomic change from waiting to running. On one machine both happen under
a lock in the sweep's folder. Machines that share only a database may both add a trial of the same index: the one with
the lower Optuna number counts, the other is ignored.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gymlab.campaigns.sweep.plan import SweepPlan, parse_plan, read_plan, sweep_folder, write_plan
from gymlab.campaigns.sweep.sampler import import_optuna
from gymlab.campaigns.sweep.space import Value
from gymlab.core.errors import UserError
from gymlab.core.types import Json, JsonObject
from gymlab.runs import platform
from gymlab.runs.locks import Owner, waiting_lock
from gymlab.runs.redact import redact
from gymlab.runs.status import now

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from optuna.study import Study
    from optuna.trial import FrozenTrial

TrialStatus = Literal["waiting", "running", "finished", "pruned", "failed"]
JOURNAL = "journal.log"  # in the sweep's folder
_ENDED = ("finished", "pruned", "failed")
_PLAN = "gymlab_plan"
_INDEX = "index"
_OVERRIDES = "overrides"
_OWNER = "owner"
_STATES: dict[str, TrialStatus] = {
    "WAITING": "waiting",
    "RUNNING": "running",
    "COMPLETE": "finished",
    "PRUNED": "pruned",
    "FAIL": "failed",
}


@dataclass(frozen=True)
class Trial:
    """A trial of a sweep as the storage has it."""

    index: int
    trial_id: int  # the storage's
    state: TrialStatus
    params: Mapping[str, Value]
    overrides: tuple[str, ...]
    value: float | None = None  # interquartile mean of its runs' scores
    rungs: Mapping[int, float] = field(default_factory=dict)  # value at each rung, by the rung's number
    scores: tuple[float, ...] = ()  # by seed
    runs: tuple[str, ...] = ()
    env_steps: int = 0
    reason: str = ""
    owner: Owner | None = None

    @property
    def ended(self) -> bool:
        return self.state in _ENDED

    def as_json(self) -> dict[str, Json]:
        return {
            "trial": self.index,
            "state": self.state,
            "value": self.value,
            "params": dict(self.params),
            "overrides": list(self.overrides),
            "scores": list(self.scores),
            "rungs": {str(rung): value for rung, value in sorted(self.rungs.items())},
            "runs": list(self.runs),
            "env_steps": self.env_steps,
            "reason": self.reason,
        }


def best_trial(trials: Sequence[Trial]) -> Trial | None:
    """The finished trial with the highest value; the first of equals, as in Optuna."""
    scored = [trial for trial in trials if trial.state == "finished" and trial.value is not None]
    return max(scored, key=lambda trial: (trial.value or 0.0, -trial.index), default=None)


class TrialStore:
    """A sweep's Optuna study. Every process of the sweep opens one."""

    def __init__(self, runs_root: Path, plan: SweepPlan) -> None:
        self.plan = plan
        self.folder = sweep_folder(runs_root, plan.name)
        self.me = Owner.me()
        self._lock = self.folder / "lock"
        self._distributions = {dimension.key: dimension.distribution() for dimension in plan.dimensions}
        self._storage = _open_storage(plan.storage, self.folder / JOURNAL)
        optuna = import_optuna()
        with self.locked():
            self._study = optuna.create_study(
                study_name=plan.name, storage=self._storage, direction="maximize", load_if_exists=True
            )
            if _PLAN not in self._study.user_attrs:
                self._study.set_user_attr(_PLAN, plan.as_json())

    @contextmanager
    def locked(self) -> Iterator[None]:
        with waiting_lock(self._lock):
            yield

    def trials(self) -> list[Trial]:
        """Every trial that counts, by index: 0, 1, 2, ... without a gap."""
        found: dict[int, Trial] = {}
        for record in self._study.get_trials(deepcopy=False):
            index = record.user_attrs.get(_INDEX)
            if isinstance(index, int) and index not in found:
                found[index] = _parse_trial(index, record)
        return [found[index] for index in sorted(found)]

    def add(self, index: int, params: Mapping[str, Value], overrides: tuple[str, ...]) -> None:
        """Add a waiting trial; call it under the lock."""
        from optuna.trial import TrialState, create_trial

        drawn = {key: params[key] for key in self._distributions if key in params}
        self._study.add_trial(
            create_trial(
                state=TrialState.WAITING,
                params=drawn,
                distributions={key: self._distributions[key] for key in drawn},
                user_attrs={_INDEX: index, _OVERRIDES: list(overrides)},
            )
        )

    def claim(self, mine: Collection[int], *, take_over: bool = False) -> Trial | None:
        """The next trial for this process: a running one whose owner has ended, else the first waiting one.

        Call it under the lock.
        """
        from optuna.trial import TrialState

        trials = self.trials()
        for trial in trials:
            if trial.state == "running" and trial.index not in mine and (take_over or has_ended(trial.owner)):
                self._set_owner(trial)
                return trial
        for trial in trials:
            if trial.state == "waiting" and self._storage.set_trial_state_values(trial.trial_id, TrialState.RUNNING):
                self._set_owner(trial)
                return trial
        return None

    def _set_owner(self, trial: Trial) -> None:
        self._storage.set_trial_user_attr(trial.trial_id, _OWNER, {**asdict(self.me), "since": now()})

    def report(self, trial: Trial, rung: int, value: float) -> None:
        """Store a trial's value at a rung; idempotent."""
        self._storage.set_trial_intermediate_value(trial.trial_id, rung, value)

    def finish(self, trial: Trial, state: TrialStatus, value: float | None, facts: JsonObject) -> None:
        """Store how a trial ended; `facts` are the fields of `Trial` that are known only now."""
        from optuna.trial import TrialState

        for name, fact in facts.items():
            self._storage.set_trial_user_attr(trial.trial_id, name, fact)
        ends = {"finished": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}
        values = None if value is None or state == "failed" else [value]
        self._storage.set_trial_state_values(trial.trial_id, ends[state], values)

    @property
    def study(self) -> Study:
        """Optuna's study, to read from: for plots and importances."""
        return self._study


def has_ended(owner: Owner | None) -> bool:
    """Whether the process that owned a trial has ended; one on another machine is assumed to be alive."""
    if owner is None:
        return True
    return owner.host == platform.host_name() and platform.process_start(owner.pid) != owner.start


def create_store(runs_root: Path, plan: SweepPlan) -> TrialStore:
    """Write the plan, then open its store."""
    write_plan(runs_root, plan)
    return TrialStore(runs_root, plan)


def open_store(runs_root: Path, name: str, url: str | None) -> TrialStore:
    """The store of an existing sweep: in this runs folder, or in a database that other machines write too."""
    if url is None:
        return TrialStore(runs_root, read_plan(runs_root, name))
    import_optuna()
    from optuna import load_study

    try:
        study = load_study(study_name=name, storage=_open_storage(url, sweep_folder(runs_root, name)))
    except KeyError:
        raise UserError(
            f"no sweep '{name}' in that database: gymlab sweep RECIPE --name {name} --storage URL"
        ) from None
    record = study.user_attrs.get(_PLAN)
    if record is None:
        raise UserError(f"study '{name}' in that database is not a sweep of gymlab's")
    return create_store(runs_root, parse_plan(record | {"storage": url}, f"the plan of study '{name}'"))


def _parse_trial(index: int, record: FrozenTrial) -> Trial:
    attrs = record.user_attrs
    owner = attrs.get(_OWNER)
    return Trial(
        index,
        record._trial_id,
        _STATES[record.state.name],
        record.params,
        tuple(attrs[_OVERRIDES]),
        record.values[0] if record.values else None,
        dict(record.intermediate_values),
        tuple(attrs.get("scores", ())),
        tuple(attrs.get("runs", ())),
        int(attrs.get("env_steps", 0)),
        str(attrs.get("reason", "")),
        None if owner is None else Owner(owner["pid"], owner["host"], owner["start"]),
    )


def _open_storage(url: str | None, journal: Path) -> BaseStorage:
    """Optuna's storage: a journal file, or the database at a URL; UserError if that cannot be opened."""
    optuna = import_optuna()
    if url is None:
        journal.parent.mkdir(parents=True, exist_ok=True)
        backend = optuna.storages.journal.JournalFileBackend(str(journal), lock_obj=_JournalLock(journal))
        with _JournalLock(journal):  # repairs the journal before it is read
            return optuna.storages.JournalStorage(backend)
    if "://" not in url:
        raise UserError(f"--storage {url[:80]!r}: a database's URL, e.g. sqlite:///sweep.db or postgresql://host/name")
    try:
        return optuna.storages.RDBStorage(url, skip_compatibility_check=False)
    except ImportError as error:
        raise UserError(f"--storage {redact(url)}: {error.name or error} is not installed: pip install it") from error
    except Exception as error:  # each database driver raises its own, and the user typed the URL
        message = str(error).splitlines()[0][:200]
        raise UserError(f"--storage {redact(url)} cannot be opened: {redact(message)}") from error


class _JournalLock:
    """File lock that ends with its process; Optuna's own is a file that a killed process leaves behind.

    Truncates a last line that a power cut left half written: a line appended to it could not be read.
    """

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._fd = -1

    def acquire(self) -> bool:
        self._fd = platform.open_lock(self._journal.with_suffix(".lock"))
        platform.wait_lock(self._fd)
        _truncate_half_line(self._journal)
        return True

    def release(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def _truncate_half_line(journal: Path) -> None:
    if not journal.exists():
        return
    with journal.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        if not size:
            return
        file.seek(size - 1)
        if file.read(1) == b"\n":
            return
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
