"""TrialSampler: the settings of each trial, a function of the plan and of the results of earlier rounds.

Optuna's sampler lives in memory and is replayed from the first round in every process: one that joins, or that resumes
after a kill, draws what any other would have drawn. The trials of a round are drawn without each other's results, so
their order of completion does not matter.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

from gymlab.campaigns.sweep.space import Value, grid
from gymlab.core.errors import UserError

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import Trial as OptunaTrial

    from gymlab.campaigns.sweep.plan import SweepPlan
    from gymlab.campaigns.sweep.store import Trial

EXTRA = "sweeps need an extra package: pip install 'gymlab[sweep]'"
_STARTUP = 10  # trials that TPE draws at random before it models the results


class TrialSampler:
    """Draws the trials of one plan, in order."""

    def __init__(self, plan: SweepPlan) -> None:
        self._plan = plan
        self._space = plan.dimensions
        self._drawn: list[dict[str, Value]] = []
        self._asked: list[OptunaTrial] = []  # Optuna's trials, as `ask` returned them
        self._reported = 0  # how many of them Optuna has the result of
        self._study: Study | None = None
        if plan.method == "grid":
            self._drawn = grid(self._space)
        else:
            self._study = _create_study(plan)

    def params(self, index: int, trials: Sequence[Trial]) -> dict[str, Value]:
        """The settings of a trial; all trials of earlier rounds must have ended."""
        plan = self._plan
        skipped = len(self._plan.first)
        if index < skipped:
            return {}
        while len(self._drawn) <= index - skipped:
            begin = len(self._drawn) + skipped
            self._report_until(plan.members(plan.round_of(begin)).start, trials)
            self._ask(plan.members(plan.round_of(begin)).stop - begin)
        return self._drawn[index - skipped]

    def _report_until(self, until: int, trials: Sequence[Trial]) -> None:
        """Report the results of all trials before `until` to Optuna, in order."""
        while self._reported + len(self._plan.first) < until:
            self._report(self._asked[self._reported], trials[self._reported + len(self._plan.first)])
            self._reported += 1

    def _report(self, asked: OptunaTrial, trial: Trial) -> None:
        from optuna.trial import TrialState

        study = self._study
        assert study is not None, "a grid asks nothing of Optuna"
        assert trial.ended, f"trial {trial.index} of an earlier round is still {trial.state}"
        for rung, value in sorted(trial.rungs.items()):
            asked.report(value, rung)
        if trial.state == "finished":
            study.tell(asked, trial.value)
        else:
            state = TrialState.PRUNED if trial.state == "pruned" else TrialState.FAIL
            study.tell(asked, state=state)

    def _ask(self, count: int) -> None:
        assert self._study is not None, "a grid has all its trials"
        distributions = {dimension.key: dimension.distribution() for dimension in self._space}
        for _ in range(count):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                asked = self._study.ask(distributions)
            self._asked.append(asked)
            self._drawn.append({d.key: d.rounded(asked.params[d.key]) for d in self._space})


def _create_study(plan: SweepPlan) -> Study:
    optuna = import_optuna()
    if plan.method == "cma" and find_spec("cmaes") is None:
        raise UserError("--method cma needs an extra package: pip install cmaes")
    # Optuna takes seeds below 2**32; the prefix separates this stream from those of the runs.
    seed = random.Random(f"gymlab sweep {plan.seed}").randrange(2**32)  # noqa: S311
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ExperimentalWarning, at each use
        samplers = {
            "random": lambda: optuna.samplers.RandomSampler(seed=seed),
            "tpe": lambda: optuna.samplers.TPESampler(seed=seed, n_startup_trials=_STARTUP, constant_liar=True),
            "cma": lambda: optuna.samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False),
        }
        return optuna.create_study(direction="maximize", sampler=samplers[plan.method]())


def import_optuna() -> ModuleType:
    """Optuna with its log lines switched off; UserError if it is not installed."""
    try:
        import optuna
    except ImportError as error:
        raise UserError(EXTRA) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
