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


class SilentObserver:
    """An observer of a sweep that prints nothing."""

    def on_trials(self, trials): ...
    def on_report(self, trial, seed, report): ...


def here(runs, executor, **options):
    """A sweep by this process and the workers of a pool that other tests use too; what `results --json` says."""
    from gymlab.campaigns.sweep.plan import SweepOptions, make_plan
    from gymlab.campaigns.sweep.runner import SweepRunner
    from gymlab.campaigns.sweep.store import create_store
    from gymlab.campaigns.sweep.sweep_status import results

    reference, *overrides = TINY
    plan, _ = make_plan(SweepOptions(reference, tuple(overrides), **{"space": (RATES[1],), **options}), runs)
    store = create_store(runs, plan)
    assert SweepRunner(runs, store, SilentObserver(), ("gymlab", "sweep")).run(executor)
    return results(plan, store.trials())
