"""The book of a sweep: its trials in the study's storage, with who does them. All that survives a kill is here.

Trials are put in whole, in one write each, and claimed by a change from waiting to running that only one process can
make. On one machine that happens under a lock in the sweep's folder. Where machines share only a database two of them
may put in the same trial: of two with one index the one with the lower number counts, and the other is struck out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gymlab.campaigns.sweep.plan import JOURNAL, Plan, parse_plan, read_plan, sweep_folder, write_plan
from gymlab.campaigns.sweep.space import Value
from gymlab.campaigns.sweep.storage import open_storage
from gymlab.campaigns.sweep.suggest import import_optuna
from gymlab.campaigns.sweep.trial import Row, State
from gymlab.core.errors import UserError
from gymlab.runs import platform
from gymlab.runs.locks import Owner, waiting_lock
from gymlab.runs.status import now

_PLAN = "gymlab_plan"
_INDEX = "index"
_OVERRIDES = "overrides"
_OWNER = "owner"
_STATES: dict[str, State] = {
    "WAITING": "waiting",
    "RUNNING": "running",
    "COMPLETE": "finished",
    "PRUNED": "pruned",
    "FAIL": "failed",
}


class Ledger:
    """A sweep's study. Every process that takes part has one."""

    def __init__(self, runs_root: Path, plan: Plan) -> None:
        self.plan = plan
        self.folder = sweep_folder(runs_root, plan.name)
        self.me = Owner.me()
        self._lock = self.folder / "lock"
        self._distributions = {dimension.key: dimension.distribution() for dimension in plan.dimensions}
        self._storage = open_storage(plan.storage, self.folder / JOURNAL)
        optuna = import_optuna()
        with self.locked():
            self._study = optuna.create_study(
                study_name=plan.name, storage=self._storage, direction="maximize", load_if_exists=True
            )
            if _PLAN not in self._study.user_attrs:
                self._study.set_user_attr(_PLAN, plan.model_dump(mode="json"))

    @contextmanager
    def locked(self) -> Iterator[None]:
        with waiting_lock(self._lock):
            yield

    def rows(self) -> list[Row]:
        """Every trial that counts, by index: 0, 1, 2, ... without a gap."""
        found: dict[int, Row] = {}
        for trial in self._study.get_trials(deepcopy=False):
            index = trial.user_attrs.get(_INDEX)
            if isinstance(index, int) and index not in found:
                found[index] = _row(index, trial)
        return [found[index] for index in sorted(found)]

    def add(self, index: int, params: Mapping[str, Value], overrides: tuple[str, ...]) -> None:
        """Put a trial in, waiting; under the lock."""
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

    def claim(self, mine: Collection[int], *, take_over: bool = False) -> Row | None:
        """The next trial for this process: one whose owner is gone, or the first that waits. Under the lock."""
        from optuna.trial import TrialState

        rows = self.rows()
        for row in rows:
            if row.state == "running" and row.index not in mine and (take_over or is_gone(row.owner)):
                self._sign(row)
                return row
        for row in rows:
            if row.state == "waiting" and self._storage.set_trial_state_values(row.trial_id, TrialState.RUNNING):
                self._sign(row)
                return row
        return None

    def _sign(self, row: Row) -> None:
        self._storage.set_trial_user_attr(row.trial_id, _OWNER, {**asdict(self.me), "since": now()})

    def report(self, row: Row, rung: int, value: float) -> None:
        """What a trial had come to at a rung. Saying it again changes nothing."""
        self._storage.set_trial_intermediate_value(row.trial_id, rung, value)

    def finish(self, row: Row, state: State, value: float | None, facts: Mapping[str, Any]) -> None:
        """A trial's last word; `facts` are the fields of a row that only now are known."""
        from optuna.trial import TrialState

        for name, fact in facts.items():
            self._storage.set_trial_user_attr(row.trial_id, name, fact)
        ends = {"finished": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}
        values = None if value is None or state == "failed" else [value]
        self._storage.set_trial_state_values(row.trial_id, ends[state], values)

    @property
    def study(self) -> Any:
        """Optuna's, to be read: for plots and importances."""
        return self._study


def is_gone(owner: Owner | None) -> bool:
    """Whether the process that had a trial has ended; one on another machine is taken to live."""
    if owner is None:
        return True
    return owner.host == platform.host_name() and platform.process_start(owner.pid) != owner.start


def open_ledger(runs_root: Path, plan: Plan) -> Ledger:
    """The book of a plan, which is written down first."""
    write_plan(runs_root, plan)
    return Ledger(runs_root, plan)


def join_ledger(runs_root: Path, name: str, url: str | None) -> Ledger:
    """The book of a sweep that exists: in this runs folder, or in a database that another machine writes too."""
    if url is None:
        return Ledger(runs_root, read_plan(runs_root, name))
    import_optuna()
    from optuna import load_study

    try:
        study = load_study(study_name=name, storage=open_storage(url, sweep_folder(runs_root, name)))
    except KeyError:
        raise UserError(
            f"no sweep '{name}' in that database: gymlab sweep RECIPE --name {name} --storage URL"
        ) from None
    record = study.user_attrs.get(_PLAN)
    if record is None:
        raise UserError(f"study '{name}' in that database is not a sweep of gymlab's")
    return open_ledger(runs_root, parse_plan(record | {"storage": url}, f"the plan of study '{name}'"))


def _row(index: int, trial: Any) -> Row:
    attrs = trial.user_attrs
    owner = trial.user_attrs.get(_OWNER)
    return Row(
        index,
        trial._trial_id,
        _STATES[trial.state.name],
        trial.params,
        tuple(attrs[_OVERRIDES]),
        trial.values[0] if trial.values else None,
        dict(trial.intermediate_values),
        tuple(attrs.get("scores", ())),
        tuple(attrs.get("runs", ())),
        int(attrs.get("env_steps", 0)),
        str(attrs.get("reason", "")),
        None if owner is None else Owner(owner["pid"], owner["host"], owner["start"]),
    )
