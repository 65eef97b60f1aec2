"""What pages cost: long runs, idle pages, many who look."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gymlab.core.clock import Clock
from gymlab.runs.metrics_writer import MetricsWriter
from gymlab.runs.paths import RunPaths
from tests.running import environment, start
from tests.synthetic import make_run
from tests.waiting import wait_until
from tests.web.browsing import charts, drawn, looking, serving
from tests.web.test_live import RECIPE, newest

pytest.importorskip("nicegui")
pytestmark = pytest.mark.slow
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def test_ten_runs_of_a_hundred_thousand_rows_are_compared_within_two_seconds(chrome, tmp_path):
    runs = tmp_path / "runs"
    names = [f"long-{n}" for n in range(10)]
    for name in names:
        make_run(runs, name, updates=8)
    store = runs / names[0] / "metrics.db"
    store.unlink()
    with MetricsWriter(store) as writer:
        for first in range(1, 100_001, 1000):
            writer.append(
                Clock(u, 32 * u, 256 * u, u, u / 50)._asdict()
                | {f"opt/m{k}": float(u * k % 97) for k in range(20)}
                | {"roll/return_mean": u / 200, "time/progress": u / 100_000}
                for u in range(first, first + 1000)
            )
    for name in names[1:]:
        shutil.copyfile(store, runs / name / "metrics.db")
    with serving(runs) as site, looking(chrome, site.base) as tab:
        tab.goto(site.base)  # the browser has the libraries by now, as a user's has
        tab.get_by_role("gridcell", name="long-0").wait_for()
        began = time.monotonic()
        tab.goto(f"{site.base}/compare?runs={','.join(names)}")
        tab.get_by_text("mean and 95 % interval by recipe").wait_for()
        interactive = time.monotonic() - began
        lines = drawn(tab, "roll/return_mean")["series"]
        complete = time.monotonic() - began
        print(f"interactive after {interactive:.2f} s, drawn after {complete:.2f} s")
        assert [line["name"] for line in lines if line["name"].startswith("long")] == names
        assert max(len(line["data"]) for line in lines) <= 1000
        assert interactive < 2.0


def test_an_idle_page_costs_less_than_a_tenth_of_a_core(chrome, tmp_path):
    make_run(tmp_path / "runs", "one")
    with serving(tmp_path / "runs") as site, looking(chrome, site.base) as tab, looking(chrome, site.base) as table:
        tab.goto(f"{site.base}/run/one")
        table.goto(site.base)
        drawn(tab, "roll/return_mean")
        time.sleep(2)
        before, began = cpu_seconds(site.pid), time.monotonic()
        time.sleep(10)
        share = (cpu_seconds(site.pid) - before) / (time.monotonic() - began)
        print(f"{share:.1%} of a core")
        assert charts(tab)
    assert share < 0.1


def test_twenty_who_look_leave_nine_tenths_of_the_speed(folder):
    (folder / "small.yaml").write_text(RECIPE.replace("n_envs: 2", "n_envs: 8"))
    process = start("train", "small.yaml", "--run-id", "live", "--full-budget", "-q", cwd=folder)
    paths = RunPaths(folder / "runs" / "live")
    try:
        wait_until(lambda: newest(paths) > 0, "the first update")
        with serving(folder / "runs") as site:
            time.sleep(5)
            alone, watched, cost = [], [], []
            for _ in range(3):  # in turns: what else the machine does changes from minute to minute
                alone.append(pace(paths, 8))
                clients = subprocess.Popen(
                    [sys.executable, "tests/web/clients.py", site.base, "/run/live", "20", "14"],
                    cwd=Path(__file__).parents[2], env=environment(), stdout=subprocess.PIPE, text=True,
                )  # fmt: skip
                time.sleep(4)
                before = cpu_seconds(site.pid)
                watched.append(pace(paths, 8))
                cost.append(round((cpu_seconds(site.pid) - before) / 8, 3))
                sent, _ = clients.communicate(timeout=60)
                assert min(map(int, sent.strip("[]\n").split(","))) > 20_000, "the clients saw nothing"
    finally:
        process.terminate()
        process.communicate(timeout=60)
    print(f"updates/s alone {alone}, watched {watched}; the server takes {cost} of a core")
    assert sum(watched) >= 0.9 * sum(alone)


def pace(paths, seconds):
    """Updates per second, over a while."""
    first, began = newest(paths), time.monotonic()
    time.sleep(seconds)
    return round((newest(paths) - first) / (time.monotonic() - began), 1)
