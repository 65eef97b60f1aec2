"""Which settings a trial has: a function of the plan and of what earlier rounds came to, and of nothing else.

The sampler lives in memory and is walked through all rounds from the beginning, whoever asks: a process that joins, or
that goes on after a kill, draws what any other would have drawn. Trials of one round do not see each other's outcome,
so it does not matter which of them ends first.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from gymlab.campaigns.sweep.plan import Plan
from gymlab.campaigns.sweep.space import Value, grid
from gymlab.campaigns.sweep.trial import Row
from gymlab.core.errors import UserError

EXTRA = "sweeps need an extra package: pip install 'gymlab[sweep]'"
_STARTUP = 10  # rounds of TPE begin with as many trials drawn at random


class Suggester:
    """Draws the trials of one plan, in order."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._space = plan.dimensions
        self._drawn: list[dict[str, Value]] = []
        self._asked: list[Any] = []
        self._told = 0  # trials of the sampler, by number, whose outcome it knows
        self._study: Any = None
        if plan.method == "grid":
            self._drawn = grid(self._space)
        else:
            self._study = _study(plan)

    def params(self, index: int, rows: Sequence[Row]) -> dict[str, Value]:
        """The settings of a trial; all trials of the rounds before its own must have ended."""
        plan = self._plan
        skipped = len(self._plan.first)
        if index < skipped:
            return {}
        while len(self._drawn) <= index - skipped:
            begin = len(self._drawn) + skipped
            self._tell(plan.members(plan.round_of(begin)).start, rows)
            self._ask(plan.members(plan.round_of(begin)).stop - begin)
        return self._drawn[index - skipped]

    def _tell(self, until: int, rows: Sequence[Row]) -> None:
        """The outcome of all trials before `until`, in their order."""
        while self._told + len(self._plan.first) < until:
            self._tell_one(self._asked[self._told], rows[self._told + len(self._plan.first)])
            self._told += 1

    def _tell_one(self, trial: Any, row: Row) -> None:
        from optuna.trial import TrialState

        assert row.ended, f"trial {row.index} of an earlier round is still {row.state}"
        for rung, value in sorted(row.rungs.items()):
            trial.report(value, rung)
        if row.state == "finished":
            self._study.tell(trial, row.value)
        else:
            state = TrialState.PRUNED if row.state == "pruned" else TrialState.FAIL
            self._study.tell(trial, state=state)

    def _ask(self, count: int) -> None:
        distributions = {dimension.key: dimension.distribution() for dimension in self._space}
        for _ in range(count):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                trial = self._study.ask(distributions)
            self._asked.append(trial)
            self._drawn.append({d.key: d.rounded(trial.params[d.key]) for d in self._space})


def _study(plan: Plan) -> Any:
    optuna = import_optuna()
    if plan.method == "cma" and find_spec("cmaes") is None:
        raise UserError("--method cma needs an extra package: pip install cmaes")
    # Seeds below 2**32, and another stream than that of the runs.
    seed = random.Random(f"gymlab sweep {plan.seed}").randrange(2**32)  # noqa: S311
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna tells of what is experimental each time
        samplers = {
            "random": lambda: optuna.samplers.RandomSampler(seed=seed),
            "tpe": lambda: optuna.samplers.TPESampler(seed=seed, n_startup_trials=_STARTUP, constant_liar=True),
            "cma": lambda: optuna.samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False),
        }
        return optuna.create_study(direction="maximize", sampler=samplers[plan.method]())


def import_optuna() -> Any:
    """Optuna without its log lines; UserError where it is not installed."""
    try:
        import optuna
    except ImportError as error:
        raise UserError(EXTRA) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
