"""A run that trains in the background, watched, held still, stepped and stopped from its page."""

import contextlib
import json
import time

import pytest

from gymlab.core.errors import RunError
from gymlab.runs import requests
from gymlab.runs.metrics_reader import MetricsReader
from gymlab.runs.paths import RunPaths
from gymlab.runs.status import read_status
from tests.running import metric_rows, start
from tests.waiting import wait_until
from tests.web.browsing import charts, drawn, looking, serving

pytest.importorskip("nicegui")
RECIPE = """\
env: {id: CartPole-v1}
variants:
  ppo:
    budget: 5M env_steps
    engine: gymnasium
    n_envs: 2
    n_steps: 64
    policy: {hidden: [8]}
    eval: {every: 50%, episodes: 2, final_episodes: 2}
    metrics: {statistics: basic, rows_every: 1}
    ppo: {epochs: 1, batch_size: 128}
    stop: {}
    alerts:
      rules: [{id: always-here, metric: roll/reward_mean, above: 0.5, for: 1 of 1, advice: Nothing to be done.}]
"""


@pytest.fixture
def live(folder):
    """A run that would last for hours, and the page over it."""
    (folder / "small.yaml").write_text(RECIPE)
    process = start("train", "small.yaml", "--run-id", "live", "--full-budget", "-q", cwd=folder)
    paths = RunPaths(folder / "runs" / "live")
    try:
        wait_until(lambda: newest(paths) > 0, "the first update")
        with serving(folder / "runs") as site:
            yield site, paths
    finally:
        process.terminate()
        process.communicate(timeout=60)


def newest(paths):
    """The last update in the store; 0 while there is none."""
    with contextlib.suppress(RunError), MetricsReader(paths.metrics) as reader:
        return reader.last().get("updates", 0)
    return 0


def shown(tab):
    """The newest update in the chart."""
    chart = charts(tab).get("roll/return_mean")
    data = chart["series"][-1]["data"] if chart else []
    return data[-1][0] / 64 if data else 0


def delay(tab, paths):
    """How long it takes until what is in the store now stands in the chart; after that, training has gone on."""
    stored, began = newest(paths), time.monotonic()
    wait_until(lambda: shown(tab) >= stored, "new updates")
    took = time.monotonic() - began
    wait_until(lambda: newest(paths) > stored, "training")
    return took


def test_a_training_run_is_watched_held_stepped_and_stopped_from_its_page(chrome, live):
    site, paths = live
    with looking(chrome, site.base) as tab:
        tab.goto(f"{site.base}/run/live")
        drawn(tab, "roll/return_mean")
        delays = [delay(tab, paths) for _ in range(5)]
        print("seconds from the store to the chart:", [round(seconds, 2) for seconds in delays])
        tab.get_by_role("status").filter(has_text="always-here").wait_for()
        assert charts(tab)["roll/return_mean"]["marks"] >= 1
        assert json.loads((paths.root / "bounds.json").read_text())["opt/entropy"][1] == pytest.approx(0.6931, abs=1e-4)
        assert charts(tab)["opt/entropy"]["high"] == pytest.approx(0.6931, abs=1e-4)

        tab.get_by_role("tab", name="State").click()
        tab.get_by_role("tabpanel").get_by_role("button", name="Pause").click()
        tab.get_by_text("paused after update").wait_for()
        held = wait_until(lambda: requests.read_pause_state(paths).get("updates"), what="a pause")
        wait_until(lambda: newest(paths) == held, "all rows")
        for more in (1, 2):
            tab.get_by_role("button", name="Run one update").click()
            tab.get_by_text(f"paused after update {held + more}").wait_for()
            wait_until(lambda more=more: newest(paths) == held + more, "one more row")
        tab.get_by_role("tabpanel").get_by_role("button", name="Checkpoint").click()
        env_steps = (held + 2) * 128
        tab.get_by_text(f"Weights and normaliser of checkpoint {env_steps}").wait_for()
        tab.get_by_role("button", name="Resume").first.click()
        wait_until(lambda: newest(paths) > held + 2, "going on")

        tab.get_by_role("button", name="Stop").click()
        wait_until(lambda: read_status(paths)["status"] == "stopped", "the end")
        tab.get_by_text("stopped", exact=True).wait_for()
        assert not (paths.root / "requests").exists()
        assert not (paths.root / "pause.json").exists()


@pytest.mark.slow
def test_a_run_that_was_held_and_stepped_has_the_numbers_of_one_that_was_not(folder):
    (folder / "small.yaml").write_text(RECIPE.replace("5M", "40k"))
    whole = start("train", "small.yaml", "--run-id", "whole", "--full-budget", "-q", cwd=folder)
    whole.communicate(timeout=120)
    assert whole.returncode == 0
    held = start("train", "small.yaml", "--run-id", "held", "--full-budget", "-q", cwd=folder)
    paths = RunPaths(folder / "runs" / "held")
    wait_until(lambda: newest(paths) > 0, "the first update")
    for request in ("pause", "step", "step", "resume", "checkpoint"):
        requests.send_request(paths, request)
        time.sleep(0.5)
    held.communicate(timeout=120)
    assert held.returncode == 0
    assert metric_rows(folder / "runs/whole") == metric_rows(folder / "runs/held")


@pytest.mark.slow
def test_a_stopped_run_is_scored_and_gone_on_with_from_its_page(chrome, live):
    site, paths = live
    with looking(chrome, site.base) as tab:
        tab.goto(f"{site.base}/run/live")
        tab.get_by_role("button", name="Evaluate").click()
        wait_until(lambda: "(asked" in paths.log.read_text(), "the policy to be handed to the examiner")
        tab.get_by_role("button", name="Stop").click()
        tab.get_by_text("stopped", exact=True).wait_for()
        done = newest(paths)
        tab.get_by_role("button", name="Evaluate").click()
        tab.get_by_text("evaluating …").wait_for()
        wait_until(lambda: tab.get_by_text("greedy").count(), "a score")
        tab.get_by_role("button", name="Resume").click()
        wait_until(lambda: read_status(paths)["status"] == "running" and newest(paths) > done, "going on")
        tab.get_by_text("running", exact=True).first.wait_for()
        tab.get_by_role("button", name="Stop").click()
        wait_until(lambda: read_status(paths)["status"] == "stopped", "the end")
