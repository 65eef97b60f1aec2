"""One run, read back from everywhere it was written to: the same steps and the same values, also after kill -9."""

import csv
import json
import math
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gymlab.features.console import format_metrics
from gymlab.features.console.layout import TableSelection, frame
from gymlab.features.console.view import RunView
from gymlab.recipes.resolve import resolve
from gymlab.runs.metrics_reader import MetricsReader
from gymlab.runs.paths import RunPaths
from gymlab.session.session import Options
from gymlab.session.start import train
from gymlab.terminal.screen import plain_text
from gymlab.trackers import follow
from gymlab.trackers.assemble import Trackers, make_tracker
from gymlab.trackers.feature import Tracker
from gymlab.trackers.follow import Follower
from gymlab.trackers.tensorboard_sink import points
from gymlab.trackers.wandb_program import history
from gymlab.training.events import Ended, Feature, Measured, Recorded, Updated
from tests.running import assert_same_run, environment
from tests.trackers.test_trackers import Memory

TINY = [
    "n_envs=4", "n_steps=16", "batch_size=32", "epochs=2", "policy.hidden=[8]", "eval.episodes=2",
    "eval.final_episodes=2", "eval.every=50%",
]  # fmt: skip
SECRETS = {"WANDB_API_KEY": "c" * 40, "HF_TOKEN": "hf_canarycanarycanary", "MY_PASSWORD": "canary-password-1"}
# What `gymlab train --wandb=p --tensorboard` and `gymlab resume` come down to.
PROGRAM = """
import sys
from pathlib import Path
from gymlab.session.start import Continuation, resume, train
from gymlab.session.session import Options
from gymlab.recipes.resolve import resolve
from gymlab.runs.paths import RunPaths
from gymlab.trackers.assemble import Trackers

paths = RunPaths(Path("runs/one").absolute())
if sys.argv[1] == "resume":
    resume(paths, Continuation(budget=sys.argv[2]))
else:
    recipe = resolve("CartPole-v1:ppo", sys.argv[3:], budget=sys.argv[2]).recipe
    train(recipe, Options(0, "one", True, trackers=Trackers("p", tensorboard=True)), paths.root.parent)
"""


def training(folder, name, trackers, budget="1k", more=()):
    recipe = resolve("CartPole-v1:ppo", TINY, budget=budget).recipe
    options = Options(0, name, full_budget=True, note="token=canarytoken1", tags=("t",))
    with trackers as tracker:
        return train(recipe, options, folder / "runs", watchers=[tracker, *more])


def numbers(row):
    """Comparable, NaN included, whether it was written as a word or not."""
    return {name: repr(float(value)) for name, value in row.items() if value != "" and not name.startswith("_")}


def stored(paths):
    with MetricsReader(paths.metrics) as reader:
        updates = reader.read(["updates"])["updates"]
        return [numbers(reader.row(int(update))) for update in updates]


def tensorboard_rows(paths):
    events = [point for path in sorted((paths.root / "tensorboard").iterdir()) for point in points(path)]
    assert [point.step for point in events if point.values] == [
        point.values["vec_steps"] for point in events if point.values
    ]
    return [numbers(point.values) for point in events if point.values]


def wandb_rows(paths):
    found = sorted((paths.root / "wandb").glob("offline-run-*/*.wandb"))
    return [numbers(row) for path in found for row in history(path) if "updates" in row]


class Watcher(Feature):
    """What a console shows of every update, once all of it is known."""

    name = "watcher"

    def __init__(self):
        self.view, self.shown, self.lines = RunView(), {}, []

    def __call__(self, event, control):
        if isinstance(event, Updated | Ended) and self.view.clock.updates:
            self.shown[self.view.clock.updates] = format_metrics(self.view.values)
            self.lines = [plain_text(line) for line in frame(self.view, TableSelection(), 400, 60)]
        if isinstance(event, Updated):
            self.view.update(event)
        elif isinstance(event, Recorded):
            self.view.record(event)
        elif isinstance(event, Measured):
            self.view.measure(event)


def check_console(watcher, truth):
    """Every value of the store is shown at its precision, for the same update, and so it stands in the table."""
    rows = {int(float(row["updates"])): row for row in truth}
    assert max(rows) in watcher.shown
    for update, shown in watcher.shown.items():
        stored_row = {name: float(value) for name, value in rows[update].items() if "/" in name}
        assert {name: shown[name] for name in stored_row} == format_metrics(stored_row)
    table = "\n".join(watcher.lines)
    for name, text in watcher.shown[max(rows)].items():
        if name in ("roll/return_mean", "opt/entropy", "opt/approx_kl", "eval/greedy_mean", "time/sps"):
            assert re.search(rf" {name.partition('/')[2]} +{re.escape(text)} ", table), (name, text, table)


def test_console_store_csv_tensorboard_and_wandb_hold_the_same_values_at_the_same_steps(folder, monkeypatch):
    for name, value in {**SECRETS, "HOME": str(folder / "home-canary"), "WANDB_MODE": "offline"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("gymlab.trackers.feature.FINISH_SECONDS", 120.0)  # what a busy machine is late with counts too
    paths = RunPaths(folder / "runs/one")
    watcher = Watcher()
    training(folder, "one", make_tracker(Trackers("p", tensorboard=True), paths), more=[watcher])
    truth = stored(paths)
    assert len(truth) == 16
    check_console(watcher, truth)
    assert "eval/greedy_mean" in truth[-1]
    assert "time/checkpoint" in truth[-1]
    with MetricsReader(paths.metrics) as reader:
        reader.to_csv(folder / "metrics.csv")
    with (folder / "metrics.csv").open() as file:
        assert [numbers(row) for row in csv.DictReader(file)] == truth
    assert tensorboard_rows(paths) == truth
    assert wandb_rows(paths) == truth
    assert not paths.metrics.with_name("metrics.db-wal").exists()  # the followers let the store be closed
    check_wandb_record(paths)
    check_privacy(folder, paths)


def check_wandb_record(paths):
    (file,) = (paths.root / "wandb").glob("offline-run-*/*.wandb")
    told = inspected(file)
    (run,) = [record["run"] for record in told if record["type"] == "run"]
    assert (run["display_name"], run["project"], run["tags"], run["notes"]) == ("ppo-one", "p", ["t"], "token=***")
    axis = [record["metric"] for record in told if record["type"] == "metric" and record["metric"].get("glob_name")]
    assert [(metric["glob_name"], metric["step_metric"]) for metric in axis] == [("*", "vec_steps")]
    best = [record["artifact"] for record in told if record["type"] == "artifact"][-1]
    assert best["type"] == "model"
    assert "best" in best["aliases"]
    index = json.loads(paths.checkpoint_index.read_text())
    files = {Path(entry["path"]).name: Path(entry["local_path"]) for entry in best["manifest"]["contents"]}
    assert set(files) == {"policy.safetensors", "checkpoint.json", "recipe.yaml"}
    weights = paths.checkpoints / index["best"] / "policy.safetensors"
    assert files["policy.safetensors"].read_bytes() == weights.read_bytes()
    assert not [record for record in told if socket.gethostname() in json.dumps(record).replace("/", '"').split('"')]


def inspected(file):
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(file)]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in told.stdout.splitlines()]


def check_privacy(folder, paths):
    canaries = [*SECRETS.values(), "home-canary", "canarytoken1", sys.prefix]
    written = {path: path.read_bytes() for path in (paths.root / "wandb").rglob("*") if path.is_file()}
    assert [
        (str(path), canary) for path, data in written.items() for canary in canaries if canary.encode() in data
    ] == []
    home = folder / "home-canary"
    assert [path for path in home.rglob("*") if path.is_file()] == []  # the run's folder holds everything


def test_sinks_that_raise_hang_or_are_slow_change_nothing_in_the_run(folder, monkeypatch):
    monkeypatch.setattr(follow, "POLL_SECONDS", 0.02)

    def fail(call):
        raise OSError("disk on fire")

    paths = RunPaths(folder / "runs/troubled")
    sinks = [Memory(fail), Memory(lambda call: time.sleep(60)), Memory(lambda call: time.sleep(0.05))]
    training(folder, "alone", Tracker([]))
    monkeypatch.setattr("gymlab.trackers.feature.FINISH_SECONDS", 1.0)
    began = time.monotonic()
    training(folder, "troubled", Tracker([Follower(sink, paths) for sink in sinks]))
    assert time.monotonic() - began < 20  # a minute where it waited for the one that hangs
    assert_same_run(folder / "runs/alone", folder / "runs/troubled")


class Fails(Feature):
    name = "fails"

    def __call__(self, event, control):
        if isinstance(event, Updated) and event.clock.updates >= 5:
            raise RuntimeError("broken on purpose")


def test_a_run_that_fails_leaves_complete_copies(folder):
    paths = RunPaths(folder / "runs/one")
    with pytest.raises(RuntimeError, match="on purpose"):
        training(folder, "one", make_tracker(Trackers(tensorboard=True), paths), more=[Fails()])
    assert tensorboard_rows(paths) == stored(paths)
    assert len(stored(paths)) >= 5


def start(folder, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments], cwd=folder, env=environment(WANDB_MODE="offline"),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.slow
def test_kill_minus_nine_and_resume_repeats_no_step(folder):
    paths = RunPaths(folder / "runs/one")
    process = start(folder, "train", "1M", *TINY, "eval.every=100%", "checkpoints.every=1k env_steps")
    deadline = time.monotonic() + 60
    while not (rows := list((paths.root / "wandb").glob("offline-run-*/*.wandb"))) or rows[0].stat().st_size < 30_000:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.kill()
    process.communicate()
    with MetricsReader(paths.metrics) as reader:
        before = reader.last()["env_steps"]
    process = start(folder, "resume", str(int(before) + 1000))
    assert process.wait(90) == 0, process.communicate()
    process.communicate()
    truth = stored(paths)
    assert tensorboard_rows(paths) == truth
    copied = wandb_rows(paths)
    steps = [row["vec_steps"] for row in truth]
    assert [row["vec_steps"] for row in copied] == steps
    # Rows that were sent before the kill and computed again after it keep their first times; all else is exact.
    same = [{name: value for name, value in row.items() if not volatile(name)} for row in copied]
    assert same == [{name: value for name, value in row.items() if not volatile(name)} for row in truth]
    sessions = list((paths.root / "wandb").glob("offline-run-*"))
    assert len(sessions) == 2
    assert len({folder.name.partition("-one-")[2] for folder in sessions}) == 1
    assert not math.isnan(float(truth[-1]["eval/greedy_mean"]))


def volatile(name):
    return name.startswith(("time/", "sys/")) or name == "seconds"
