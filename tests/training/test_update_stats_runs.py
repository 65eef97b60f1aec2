"""Real short runs on both engines: the same names, nothing where nothing was taken, and the same weights as without."""

import hashlib
import math

import numpy as np
import pytest

from gymlab.core.clock import Clock
from gymlab.metrics.catalogue import check_names, declared
from gymlab.recipes.keys import read_settings
from gymlab.recipes.resolve import resolve
from gymlab.reports.run_facts import read_facts
from gymlab.runs.checkpoints import load_checkpoint
from gymlab.runs.metrics_reader import MetricsReader
from gymlab.runs.paths import RunPaths
from gymlab.session.build import build
from gymlab.session.session import Options
from gymlab.session.start import Continuation, resume, train
from gymlab.training.events import Feature, Updated
from gymlab.training.named_tensors import to_tensors
from tests.running import assert_same_run, metric_rows

TINY = [
    "n_envs=2", "n_steps=8", "budget=400", "policy.hidden=[4]", "policy.activation=relu", "batch_size=8", "epochs=2",
    "eval.every=8 env_steps", "eval.warmup=100%", "eval.final_episodes=2", "target_kl=0.0001", "learning_rate=0.1",
    "checkpoints.every=100%", "max_episode_steps=12",
]  # fmt: skip
UPDATES = 25


def recipe(engine, *more):
    return resolve("CartPole-v1:ppo", [*TINY, f"engine={engine}", *more]).recipe


def advanced(engine, statistics):
    """The rows of some updates, and a digest of everything learnt."""
    parts = build(recipe(engine, f"metrics.statistics={statistics}"), 0)
    state, rows = parts.program.start(0), []
    while len(rows) < UPDATES:
        count = min(parts.program.most, UPDATES - len(rows))
        clock = parts.plan.after(Clock(), len(rows))
        state, more = parts.program.advance(state, clock, parts.plan.scheduled(clock, count), math.inf)
        rows += more
    parts.program.close()
    digest = hashlib.sha256(b"".join(name.encode() + x.tobytes() for name, x in sorted(to_tensors(state).items())))
    return rows, digest.hexdigest()


@pytest.fixture(scope="module", params=["jax", "gymnasium"])
def both(request):
    return {statistics: advanced(request.param, statistics) for statistics in ("full", "basic")}


NAMES = {}


def test_statistics_change_nothing_that_is_learnt(both):
    assert both["full"][1] == both["basic"][1]


def test_distributions_are_in_the_rows_that_looked_and_in_no_other(both):
    rows = both["full"][0]
    looked = [number for number, row in enumerate(rows, 1) if row.histograms]
    assert looked == [1, 10, 20, 25]  # the first, every tenth, the last
    assert [number for number, row in enumerate(rows, 1) if "opt/values/p50" in row] == looked
    assert not any(row.histograms for row in both["basic"][0])
    assert len(both["basic"][0][0]) < 35 < len(rows[1]) < len(rows[0])


def test_the_numbers_of_a_run_fit_together(both):
    rows = both["full"][0]
    for row in rows:
        scaled = [row[f"opt/loss/{part}_scaled"] for part in ("policy", "value", "entropy")]
        assert sum(scaled) == pytest.approx(row["opt/loss"], rel=1e-4, abs=1e-5)
        parts = [row[f"opt/grad_norm/{part}"] for part in ("policy_trunk", "policy_head", "value_trunk", "value_head")]
        assert row["opt/grad_norm_clipped"] <= 0.5001
        assert max(parts) <= row["opt/grad_norm"] * 1.0001 <= 1.0001 * sum(parts) * 1.0001
    look, bars = rows[9], rows[9].histograms
    assert look["roll/action_share/0"] + look["roll/action_share/1"] == pytest.approx(1)
    assert look["roll/action_mean"] == pytest.approx(look["roll/action_share/1"])
    assert sum(bars["roll/actions/hist"].counts) == 16
    assert sum(bars["roll/return_hist"].counts) == look["roll/return_window"]
    assert bars["roll/return_hist"].high == look["roll/return_max"]
    assert sum(bars["env/obs_hist"].counts) == 64
    assert 0.5 <= look["opt/max_prob/min"] <= look["opt/max_prob"] <= look["opt/max_prob/max"] <= 1
    assert 0 <= look["opt/dead_units"] <= 1
    assert look["opt/update_norm/policy_trunk"] <= look["opt/update_norm"] <= look["opt/param_norm"]


def test_both_engines_give_the_same_names(both):
    rows = both["full"][0]
    ours = [{name for name in row if not name.startswith("time/") and name != "env/restarts"} for row in rows]
    NAMES.setdefault("rows", (ours, [set(row.histograms) for row in rows]))
    assert NAMES["rows"][0] == ours
    assert NAMES["rows"][1] == [set(row.histograms) for row in rows]


class StopAt(Feature):
    """Interrupts a run, as a signal would."""

    name = "stop at"

    def __init__(self, update):
        self._update = update

    def due(self, now):
        return self._update if now.updates < self._update else None

    def __call__(self, event, control):
        if isinstance(event, Updated) and event.clock.updates == self._update:
            control.request_stop("on purpose", unfinished=True)


def test_a_run_stores_every_name_null_where_nothing_was_taken_and_histograms_over_time(tmp_path):
    result = train(recipe("jax"), Options(full_budget=True), tmp_path)
    with MetricsReader(result.run_dir / "metrics.db") as reader:
        names, bars = reader.names(), reader.histogram_names()
        assert check_names([*names, *bars]) == []
        assert all(declared(name).histogram for name in bars)
        assert not any(declared(name).histogram for name in names)
        at, values = reader.series("opt/values/p50", "updates")
        assert at.tolist() == [1, 10, 20, 25]
        assert np.isfinite(values).all()
        found = reader.histogram("roll/actions/hist", "updates")
        assert found.at.tolist() == [1, 10, 20, 25]
        assert found.edges[0].tolist() == [-0.5, 0.5, 1.5]
        assert found.counts.sum(1).tolist() == [16] * 4
        last = reader.last()
        stops = reader.read(["opt/kl_stop", "opt/kl_stop_count", "opt/kl_stop_fraction"])
    assert last["opt/kl_stop_count"] == stops["opt/kl_stop"].sum() > 0
    assert stops["opt/kl_stop_fraction"][-1] == stops["opt/kl_stop"].mean()
    assert {"time/record", "time/evaluate", "time/sps", "time/sps_mean"} <= set(names)
    score = read_facts(RunPaths(result.run_dir), read_settings(RunPaths(result.run_dir).recipe)).score
    assert last["score/auc"] == score.auc


@pytest.mark.parametrize("rows_every", [1, 4])
def test_a_run_that_was_interrupted_goes_on_to_the_same_rows_and_histograms(tmp_path, rows_every):
    chosen = recipe("jax", f"metrics.rows_every={rows_every}")
    train(chosen, Options(full_budget=True, run_id="whole"), tmp_path)
    stopped = train(chosen, Options(full_budget=True, run_id="stopped"), tmp_path, watchers=[StopAt(15)])
    assert (stopped.status, stopped.clock.updates) == ("stopped", 15)
    resume(RunPaths(stopped.run_dir), Continuation())
    if rows_every == 1:
        assert_same_run(tmp_path / "whole", tmp_path / "stopped")
    assert metric_rows(tmp_path / "whole") == metric_rows(tmp_path / "stopped")
    states = [load_checkpoint(RunPaths(tmp_path / name), "last") for name in ("whole", "stopped")]
    assert states[0].info["features"].get("record") == states[1].info["features"].get("record")
    histograms = []
    for name in ("whole", "stopped"):
        with MetricsReader(tmp_path / name / "metrics.db") as reader:
            assert len(reader.read(["updates"])["updates"]) == math.ceil(UPDATES / rows_every)
            found = [reader.histogram(each, "updates") for each in reader.histogram_names()]
        histograms.append([(each.name, *(array.tobytes() for array in each[1:])) for each in found])
    assert histograms[0] == histograms[1]


def test_a_thinned_row_holds_the_mean_of_its_updates(tmp_path):
    for rows_every in (1, 4):
        chosen = recipe("jax", f"metrics.rows_every={rows_every}")
        train(chosen, Options(full_budget=True, run_id=f"by{rows_every}"), tmp_path)
    with MetricsReader(tmp_path / "by1/metrics.db") as every, MetricsReader(tmp_path / "by4/metrics.db") as fourth:
        assert fourth.read(["updates"])["updates"].tolist() == [4, 8, 12, 16, 20, 24, 25]
        losses, means = (reader.read(["opt/value_loss"])["opt/value_loss"] for reader in (every, fourth))
        np.testing.assert_allclose(means[:6], losses[:24].reshape(6, 4).mean(1), rtol=1e-6)
        assert means[6] == losses[24]
        assert fourth.last()["roll/return_mean"] == every.last()["roll/return_mean"]
        # Looks come every tenth update, in whole rows: every twelfth, and at the first and the last.
        assert fourth.histogram("roll/actions/hist", "updates").at.tolist() == [4, 12, 24, 25]
