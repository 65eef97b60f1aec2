"""The long form: a sweep that is killed again and again ends as one that was not."""

import json
import random
import time

import pytest

from tests.campaigns.sweeping import journal, trials
from tests.running import gymlab, last_json, start

WORDS = [
    "sweep", "Acrobot-v1:ppo", "metrics.statistics=basic", "eval.episodes=5", "eval.final_episodes=10",
    "--space", "ppo.learning_rate=log:1e-5..1e-2", "--space", "ppo.gamma=0.95,0.99,0.999", "--trials", "24",
    "--prune", "halving", "--budget", "40k", "--name", "often",
]  # fmt: skip


@pytest.mark.slow
def test_24_trials_killed_five_times_end_as_if_nothing_had_happened(folder):
    rng, path = random.Random(0), folder / "runs" / ".sweeps" / "often" / "journal.log"
    for _ in range(5):
        before = len(path.read_bytes().splitlines()) if path.exists() else 0
        enough, moment = before + rng.randint(4, 45), rng.uniform(0, 1)
        with start(*WORDS, "-q", cwd=folder) as process:
            while process.poll() is None and (not path.exists() or len(path.read_bytes().splitlines()) < enough):
                time.sleep(0.02)
            time.sleep(moment)
            process.kill()
    told = last_json(gymlab(*WORDS, "--json", cwd=folder))
    study = journal(folder / "runs", "often")
    assert sorted(trial.user_attrs["index"] for trial in study.trials) == list(range(24))
    assert all(trial.state.is_finished() for trial in study.trials)
    assert study.best_value == told["best"]["value"]
    assert study.best_trial.user_attrs["index"] == told["best"]["trial"]
    runs = [run for row in told["rows"] for run in row["runs"]]
    assert len(runs) == len(set(runs)) == 24
    sessions = [json.loads((folder / "runs" / run / "status.json").read_text())["sessions"] for run in runs]
    assert sum(sessions) > 24  # some were under way when they were killed
    whole = last_json(gymlab(*WORDS, "--json", cwd=folder, GYMLAB_RUNS=str(folder / "whole")))
    assert trials(whole) == trials(told)
