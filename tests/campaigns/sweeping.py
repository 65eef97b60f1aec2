"""A tiny sweep, as a user starts it, and what it left behind."""

import json

from tests.running import gymlab, last_json, start

TINY = [
    "CartPole-v1:ppo", "metrics.statistics=basic", "n_envs=2", "n_steps=16", "batch_size=32", "epochs=1",
    "policy.hidden=[8]", "eval.episodes=2", "eval.final_episodes=2", "eval.max_envs=2", "checkpoints.every=20%",
]  # fmt: skip
RATES = ["--space", "ppo.learning_rate=log:1e-4..1e-2"]


def sweep(cwd, *words, **environ):
    """A sweep to its end; what `--json` says."""
    return last_json(gymlab("sweep", *TINY, *words, "--json", cwd=cwd, **environ))


def begin(cwd, *words, **environ):
    """A sweep in a process of its own, left running."""
    return start("sweep", *TINY, *words, "-q", cwd=cwd, **environ)


def trials(told):
    """What must be equal where a sweep is reproduced."""
    return [(row["overrides"], row["state"], row["value"], row["rungs"]) for row in told["rows"]]


def journal(runs, name):
    """Optuna's own view of the study, without gymlab."""
    import optuna

    backend = optuna.storages.journal.JournalFileBackend(str(runs / ".sweeps" / name / "journal.log"))
    return optuna.load_study(study_name=name, storage=optuna.storages.JournalStorage(backend))


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


class Quietly:
    """Watches a sweep and says nothing."""

    def rows(self, rows): ...
    def report(self, trial, seed, report): ...
    def say(self, text): ...


def here(runs, pool, **wanted):
    """A sweep by this process and the workers of a pool that other tests use too; what `results --json` says."""
    from gymlab.campaigns.sweep.runner import Driver
    from gymlab.campaigns.sweep.start import Wanted, make_plan
    from gymlab.campaigns.sweep.store import open_ledger
    from gymlab.campaigns.sweep.sweep_status import results

    reference, *overrides = TINY
    plan, _ = make_plan(Wanted(reference, tuple(overrides), **{"space": (RATES[1],), **wanted}), runs)
    ledger = open_ledger(runs, plan)
    assert Driver(runs, ledger, Quietly(), ("gymlab", "sweep")).run(pool)
    return results(plan, ledger.rows())
