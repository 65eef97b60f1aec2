"""Trackers follow the store, whatever their sinks do; what each sink writes is read back with its own tools."""

import json
import math
import random
import threading
import time
from types import SimpleNamespace

import pytest

from gymlab.core.clock import Clock
from gymlab.core.errors import UserError
from gymlab.features.record import Record
from gymlab.metrics.catalogue import METRICS
from gymlab.recipes.resolve import resolve
from gymlab.recipes.write import dump_recipe
from gymlab.runs import files
from gymlab.runs.metrics_reader import rows_after, update_at
from gymlab.runs.metrics_writer import MetricsWriter
from gymlab.runs.paths import RunPaths
from gymlab.trackers import follow, wandb_sink
from gymlab.trackers.assemble import Trackers, choose_trackers, copy_run, make_tracker
from gymlab.trackers.feature import Tracker
from gymlab.trackers.follow import Follower
from gymlab.trackers.sink import RunInfo, read_info
from gymlab.trackers.tensorboard_sink import BLOCK, PREFIX, TensorBoardSink, masked_crc32c, points
from gymlab.trackers.wandb_sink import WandbSink, media_name
from gymlab.trackers.wandb_workspace import workspace
from gymlab.training.events import Checkpointed, Ended, Measured, Started, Stopping, Updated, UpdateRow
from tests.wandb_server import WandbServer

INFO = RunInfo("one", "ppo", 0, group="g", tags=("t",), note="n", config={"n_envs": 4})


class Memory:
    """A sink that remembers. `trouble(call)` may raise or block."""

    name = "memory"

    def __init__(self, trouble=lambda call: None, held=0):
        self.trouble, self.held = trouble, held
        self.rows, self.others, self.calls = [], [], []

    def describe(self):
        return "memory"

    def start(self, info, at):
        self._called("start")
        return max([self.held, *(clock.vec_steps for clock, _ in self.rows)])

    def row(self, clock, metrics):
        self._called("row")
        self.rows.append((clock, dict(metrics)))

    def media(self, path, step):
        self.others.append(("media", path.name, step))

    def artifact(self, path, aliases):
        self.others.append(("artifact", path.name, aliases))

    def flush(self):
        self._called("flush")

    def finish(self, seconds, *, failed):
        self._called(f"finish failed={failed}")

    def abandon(self):
        self.calls.append("abandon")

    def _called(self, call):
        self.calls.append(call)
        self.trouble(call)

    @property
    def updates(self):
        return [clock.updates for clock, _ in self.rows]


class Script:
    """A run without learning: what the loop tells its features, and a real store."""

    def __init__(self, folder, sinks, at=0):
        self.paths = RunPaths(folder)
        self.tracker = Tracker([Follower(sink, self.paths) for sink in sinks])
        self.writer = MetricsWriter(self.paths.metrics)
        self.record = Record(self.writer)
        self.update = at
        self.tell(Started(self.clock(), resumed=at > 0))

    def clock(self, update=None):
        update = self.update if update is None else update
        return Clock(update, 16 * update, 64 * update, update // 2, update / 3)

    def tell(self, event):
        for feature in (self.tracker, self.record):
            feature(event, SimpleNamespace(interrupted=False, emit=lambda _: None))

    def train(self, updates=1, commit=True):
        for _ in range(updates):
            self.update += 1
            row = UpdateRow(self.clock(), {"roll/return_mean": self.update / 7, "opt/kl": math.nan})
            self.tell(Updated(self.clock(), (row,)))
            if commit:
                self.record.commit()  # before the row is complete: the hard case
            self.tell(Measured(self.clock(), {"time/sps": self.update / 11}))
        return self

    def end(self, seconds=20.0, error=None):
        if error is None:
            self.tell(Ended(self.clock(), "budget", "finished"))
        self.writer.close()
        began = time.monotonic()
        self.tracker.close(seconds, failed=error is not None)
        return time.monotonic() - began


@pytest.fixture
def run(tmp_path):
    """An empty run folder, as it is when training begins."""
    paths = RunPaths(tmp_path / "one")
    paths.root.mkdir()
    files.write_json(paths.manifest, {"seed": 3, "group": "g", "tags": ["t"], "note": "token=abcdefgh123"})
    files.write_text(paths.recipe, dump_recipe(resolve("CartPole-v1:ppo").recipe))
    return paths


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(follow, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(follow, "RETRY_SECONDS", 0.02)


def wait_for(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_every_row_arrives_once_complete_and_as_it_is_stored(run, quick):
    sink = Memory()
    script = Script(run.root, [sink])
    for _ in range(30):
        script.train(3)
        time.sleep(0.005)
    wait_for(lambda: len(sink.rows) > 50)  # while the run is going on, not only at its end
    script.end()
    stored = rows_after(run.metrics, 0, settled=False)
    assert sink.updates == list(range(1, 91))
    assert [clock for clock, _ in sink.rows] == [row.clock for row in stored]
    assert [repr(metrics) for _, metrics in sink.rows] == [repr(row.metrics) for row in stored]
    assert sink.rows[0][1]["time/sps"] == 1 / 11
    assert math.isnan(sink.rows[0][1]["opt/kl"])
    assert sink.calls[-1] == "finish failed=False"


def test_a_row_that_is_still_growing_is_not_settled(run):
    with MetricsWriter(run.metrics) as writer:
        writer.append([Clock(u, 16 * u, 64 * u, 0, 0.0)._asdict() | {"a": 1.0, "b": None} for u in (1, 2, 3)])
        writer.commit()
        assert [row.clock.updates for row in rows_after(run.metrics, 0, settled=True)] == [1, 2]
    assert [row.clock.updates for row in rows_after(run.metrics, 1, settled=False, limit=1)] == [2]
    assert rows_after(run.metrics, 0, settled=False)[0].metrics == {"a": 1.0}
    assert [update_at(run.metrics, steps) for steps in (0, 15, 16, 40, 99)] == [0, 0, 1, 2, 3]


def test_an_outage_is_told_once_and_made_up_for(run, quick, caplog):
    failures = iter(range(6))

    def trouble(call):
        if call == "row" and len(sink.rows) >= 10 and next(failures, None) is not None:
            raise ConnectionError("no route to host")

    sink = Memory(trouble)
    script = Script(run.root, [sink]).train(40)
    wait_for(lambda: len(sink.rows) >= 39)
    script.end()
    assert sink.updates == list(range(1, 41))
    assert [record.getMessage() for record in caplog.records] == [
        "memory: ConnectionError: no route to host; training is not affected, every row is in metrics.db"
    ]


@pytest.mark.parametrize("call", ["start", "row", "flush", "finish failed=False"])
def test_a_sink_that_hangs_is_given_up_when_time_is_up(run, quick, call, caplog):
    forever = threading.Event()
    sink = Memory(lambda name: forever.wait(30) if name == call else None)
    fine = Memory()
    script = Script(run.root, [sink, fine]).train(20)
    assert 0.4 < script.end(seconds=0.5) < 1.5
    assert sink.calls[-1] == "abandon"
    assert fine.updates == list(range(1, 21))
    assert "memory: it did not finish in time" in caplog.text
    forever.set()


def test_a_slow_sink_leaves_time_to_close(run, quick):
    sink = Memory(lambda call: time.sleep(0.002 if call == "row" else 0))
    script = Script(run.root, [sink]).train(2000, commit=False)
    assert script.end(seconds=1.0) < 3.0
    assert sink.calls[-1] == "finish failed=False"
    assert sink.updates == list(range(1, len(sink.rows) + 1))  # what has arrived is a beginning without gaps
    assert len(sink.rows) < 2000


def test_telling_a_blocked_tracker_takes_no_time(run, quick):
    forever = threading.Event()
    script = Script(run.root, [Memory(lambda call: forever.wait(30))])
    began = time.perf_counter()
    for _ in range(1000):
        script.tracker(Updated(script.clock(1), ()), SimpleNamespace(interrupted=False))
        script.tracker(Measured(script.clock(1), {}), SimpleNamespace(interrupted=False))
    assert time.perf_counter() - began < 0.3
    forever.set()
    script.end(seconds=1.0)


def test_a_resumed_run_sends_nothing_twice_and_nothing_of_what_was_cut_off(run, quick):
    first = Memory()
    Script(run.root, [first]).train(10).end()
    behind, level, ahead = Memory(held=16 * 4), Memory(held=16 * 6), Memory(held=16 * 10)
    script = Script(run.root, [behind, level, ahead], at=6)  # from a checkpoint: rows 7 to 10 are written again
    script.train(6).end()
    assert behind.updates == list(range(5, 13))
    assert level.updates == list(range(7, 13))
    assert ahead.updates == [11, 12]


def test_rows_about_to_be_cut_off_are_left_alone_and_so_is_a_store_about_to_be_closed(run, quick):
    Script(run.root, [Memory()]).train(10).end()
    sink = Memory()
    follower = Follower(sink, run)
    follower.begin(Clock(6, 96))  # the store still holds rows 7 to 10
    wait_for(lambda: sink.calls.count("flush") > 3)
    assert sink.updates == [1, 2, 3, 4, 5, 6]
    follower.pause()
    follower.resume()
    time.sleep(0.1)
    assert sink.updates == [1, 2, 3, 4, 5, 6]
    follower.end(5.0, failed=False)
    follower.wait()
    assert sink.updates == list(range(1, 11))


def test_a_run_that_is_over_can_be_sent_later_and_again(run, quick):
    Script(run.root, []).train(10).end()
    for _ in range(2):
        copy_run(Trackers(tensorboard=True), run)
    written = sorted((run.root / "tensorboard").iterdir())
    assert [point.values["updates"] for path in written for point in points(path) if point.values] == list(range(1, 11))


def test_values_measured_late_follow_at_their_own_step(run, quick):
    sink = Memory()
    script = Script(run.root, [sink]).train(5)
    wait_for(lambda: len(sink.rows) == 4)
    script.tell(Measured(script.clock(2), {"eval/greedy_mean": 9.5}))  # such as an evaluation in the background
    script.record.commit()
    wait_for(lambda: len(sink.rows) == 5)
    script.train(2).tell(Measured(script.clock(6), {"eval/greedy_mean": 11.5}))
    script.end()
    assert sink.rows[4] == (script.clock(2), {"eval/greedy_mean": 9.5})
    known = [
        (clock.updates, metrics["eval/greedy_mean"]) for clock, metrics in sink.rows if "eval/greedy_mean" in metrics
    ]
    assert known == [(2, 9.5), (6, 11.5)]


def test_a_value_that_is_replaced_later_reaches_the_copy_once(run, quick):
    sink = Memory()
    script = Script(run.root, [sink]).train(3)
    wait_for(lambda: len(sink.rows) == 2)
    script.tell(Measured(script.clock(2), {"score/auc": 114.8, "eval/greedy_mean": 9.5}))
    script.record.commit()
    wait_for(lambda: (script.clock(2), {"score/auc": 114.8, "eval/greedy_mean": 9.5}) in sink.rows)
    script.tell(Measured(script.clock(2), {"score/auc": 301.64, "eval/greedy_mean": 9.5}))  # not committed yet
    time.sleep(3 * follow.POLL_SECONDS)  # the store still has the old value, which must not be taken for the new one
    script.train(1)
    script.end()
    assert [(clock.updates, metrics["score/auc"]) for clock, metrics in sink.rows if "score/auc" in metrics] == [
        (2, 114.8),
        (2, 301.64),
    ]
    assert sum("eval/greedy_mean" in metrics for _, metrics in sink.rows) == 1
    stored = {row.clock.updates: row.metrics for row in rows_after(run.metrics, 0, settled=False)}
    copied = {}
    for clock, metrics in sink.rows:
        copied.setdefault(clock.updates, {}).update(metrics)
    assert json.dumps(copied) == json.dumps(stored)  # as text, for NaN


def test_the_newest_best_checkpoint_and_every_clip_are_handed_over(run, quick):
    sink = Memory(lambda call: time.sleep(0.3 if call == "start" else 0))
    script = Script(run.root, [sink]).train(3)
    for name in ("64", "128", "192"):
        (run.checkpoints / name).mkdir(parents=True)
        kinds = ("best", "periodic") if name != "192" else ("periodic",)
        script.tell(Checkpointed(script.clock(), run.checkpoints / name, kinds, 0.1, 10))
    (run.root / "64-best.mp4").write_bytes(b"clip")
    script.train(2).tracker.media(run.root / "64-best.mp4", script.clock(1))
    script.end()
    assert sink.others == [("media", "64-best.mp4", 16), ("artifact", "128", ("best",))]


def test_a_run_that_fails_closes_its_copies_as_failed(run, quick):
    sink = Memory()
    script = Script(run.root, [sink]).train(4)
    script.writer.close()
    with pytest.raises(ZeroDivisionError), script.tracker:
        raise ZeroDivisionError
    assert sink.updates == [1, 2, 3, 4]
    assert sink.calls[-1] == "finish failed=True"


def test_a_run_that_is_interrupted_leaves_its_trackers_little_time(run, quick, monkeypatch):
    monkeypatch.setattr("gymlab.trackers.feature.HURRY_SECONDS", 0.3)
    forever = threading.Event()
    script = Script(run.root, [Memory(lambda call: forever.wait(30))]).train(3)
    script.writer.close()
    began = time.monotonic()
    with script.tracker as tracker:
        tracker(Stopping(script.clock(), "SIGINT", interrupted=True), SimpleNamespace(interrupted=True))
        tracker(Ended(script.clock(), "SIGINT", "stopped"), SimpleNamespace(interrupted=True))
    assert time.monotonic() - began < 2.0
    forever.set()


def test_a_run_that_never_started_leaves_nothing(run):
    with make_tracker(Trackers("p", tensorboard=True), run) as tracker:
        assert tracker.describe() == ["tensorboard", "wandb project p"]
    assert sorted(path.name for path in run.root.iterdir()) == ["manifest.json", "recipe.yaml"]


def test_what_a_tracker_is_told_comes_from_the_run_and_holds_no_secret(run):
    info = read_info(run)
    assert info.display_name == "ppo-one"
    assert (info.seed, info.group, info.tags, info.recipe) == (3, "g", ("t",), "CartPole-v1:ppo")
    assert info.note == "token=***"
    assert info.config["ppo"]["epochs"] == 20
    assert json.loads(json.dumps(info.config)) == info.config


@pytest.mark.parametrize(
    ("given", "environ", "project"),
    [("", {}, "gymlab"), ("", {"WANDB_PROJECT": "mine"}, "mine"), ("given", {"WANDB_PROJECT": "mine"}, "given"),
     (None, {"WANDB_PROJECT": "mine"}, None), ("given", {"WANDB_MODE": "disabled"}, None)],
)  # fmt: skip
def test_the_project_is_the_one_given_then_the_environments(monkeypatch, given, environ, project):
    for name in ("WANDB_PROJECT", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert choose_trackers(given, tensorboard=False).wandb == project


def test_impossible_wishes_are_refused_before_anything_begins(monkeypatch):
    with pytest.raises(UserError, match="no name for a W&B project"):
        choose_trackers("a/b", tensorboard=False)
    monkeypatch.setenv("WANDB_MODE", "ofline")
    with pytest.raises(UserError, match="did you mean 'offline'"):
        choose_trackers("", tensorboard=False)
    monkeypatch.setattr("gymlab.trackers.assemble.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'gymlab\[tensorboard\]'"):
        choose_trackers(None, tensorboard=True)


def test_a_run_keeps_its_trackers_and_its_id_and_another_gets_its_own(run, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    make_tracker(Trackers("p", tensorboard=True), run)._on_start()
    first = files.read_json(run.root / "trackers.json")
    again = make_tracker(Trackers(), run)
    assert again.describe() == ["tensorboard", "wandb project p (offline)"]
    again._on_start()
    assert files.read_json(run.root / "trackers.json") == first
    assert first["wandb"]["id"].startswith("one-")
    files.write_json(run.root / "trackers.json", {"wandb": {"project": "p", "id": "../../evil"}})
    assert make_tracker(Trackers(), run).describe() == []


@pytest.mark.parametrize("length", [0, 1, 3, 4, 5, 8, 2000, BLOCK - 1, BLOCK, BLOCK + 1, BLOCK + 3, 3 * BLOCK + 7])
def test_the_checksum_is_tensorboards(length):
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c as slow

    data = random.Random(length).randbytes(length)
    assert masked_crc32c(data) == slow(data)


def test_tensorboard_forgets_what_a_killed_session_wrote_beyond_the_checkpoint(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = tmp_path / "tensorboard"

    def session(at, updates):
        sink = TensorBoardSink(folder)
        held = sink.start(INFO, Clock(at, 16 * at))
        for update in updates:
            sink.row(Clock(update, 16 * update), {"roll/return_mean": update / 3})
        sink.row(Clock(2, 32), {"eval/greedy_mean": 0.1})  # late: the clocks are not repeated
        sink.finish(1.0, failed=False)
        return held

    assert session(0, range(1, 11)) == 0
    with (folder / f"{PREFIX}000001").open("ab") as torn:
        torn.write(b"\x40\x00\x00\x00\x00\x00\x00\x00half of a record")
    assert session(6, [7, 8]) == 96
    assert session(6, []) == 96
    assert session(6, range(7, 13)) == 96
    seen = EventAccumulator(str(folder)).Reload()
    assert [(event.step, event.value) for event in seen.Scalars("roll/return_mean")] == [
        (16 * u, pytest.approx(u / 3, rel=1e-7)) for u in range(1, 13)
    ]
    assert [event.step for event in seen.Scalars("eval/greedy_mean")] == [32] * 4  # of each session, and none is lost
    assert [event.step for event in seen.Scalars("env_steps")] == [16 * u for u in range(1, 13)]
    exact = [point.values for path in sorted(folder.iterdir()) for point in points(path)]
    assert [v["roll/return_mean"] for v in exact if "roll/return_mean" in v] == [u / 3 for u in range(1, 13)]


def test_wandb_gets_every_row_and_after_an_outage_at_the_start_a_local_file_does(run, monkeypatch, caplog):
    monkeypatch.setattr(wandb_sink, "INIT_SECONDS", 1.0)
    with WandbServer() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        sink = WandbSink(run, project="p", wandb_id="one-1234", mode="online")
        assert sink.start(INFO, Clock()) == 0
        for update in (1, 2, 3):
            sink.row(Clock(update, 16 * update), {"roll/return_mean": update / 3})
        sink.row(Clock(2, 32), {"eval/greedy_mean": 5.0})
        sink.flush()
        sink.finish(20.0, failed=False)
        told = server.runs["one-1234"]
        assert (told["displayName"], told["groupName"], told["tags"], told["notes"]) == ("ppo-one", "g", ["t"], "n")
        assert [row["vec_steps"] for row in server.history("one-1234")] == [16, 32, 48, 32]
        assert [row["_step"] for row in server.history("one-1234")] == [0, 1, 2, 3]
        server.away()
        sink = WandbSink(run, project="p", wandb_id="one-1234", mode="online")
        assert sink.start(INFO, Clock()) == 48  # known from the local file: W&B cannot be asked
        assert "written offline: send it with `wandb sync" in caplog.text
        sink.row(Clock(4, 64), {"roll/return_mean": 4 / 3})
        sink.flush()
        sink.finish(20.0, failed=False)


def test_wandb_resumes_the_servers_run_and_an_outage_ends_in_time(run, monkeypatch):
    with WandbServer() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        server.runs["one-1234"] = {
            "id": "one-1234", "summary": json.dumps({"vec_steps": 64, "_step": 7}),
            "history": [json.dumps({"_step": step, "vec_steps": 64, "_runtime": 1}) for step in range(8)],
        }  # fmt: skip
        sink = WandbSink(run, project="p", wandb_id="one-1234", mode="online")
        assert sink.start(INFO, Clock()) == 64
        server.away()
        sink.row(Clock(5, 80), {"roll/return_mean": 1.0})
        sink.flush()
        began = time.monotonic()
        with pytest.raises(Exception, match="send the rest with `wandb sync"):
            sink.finish(1.0, failed=False)
        assert time.monotonic() - began < 3.0


@pytest.mark.parametrize(("name", "key"), [("50000-best.mp4", "best"), ("final_1024.gif", "final"), ("7.mp4", "clip")])
def test_clips_of_a_kind_share_a_panel(tmp_path, name, key):
    assert media_name(tmp_path / name) == f"video/{key}"


def test_the_workspace_comes_from_the_catalogue_and_is_the_same_each_time():
    metrics = {metric.name: metric for metric in METRICS}
    view = workspace(metrics, limits={"opt/entropy": (0.0, math.log(2))})
    assert json.dumps(view) == json.dumps(
        workspace(dict(reversed(metrics.items())), {"opt/entropy": (0.0, math.log(2))})
    )
    sections = {section["name"]: section["panels"] for section in view["section"]["panelBankConfig"]["sections"]}
    assert next(iter(sections)) == "Rollout"
    charts = {panel["config"].get("chartTitle"): panel["config"] for panel in sections["Optimisation"]}
    assert charts["opt/loss"]["metrics"] == [
        "opt/loss",
        "opt/loss/policy_scaled",
        "opt/loss/value_scaled",
        "opt/loss/entropy_scaled",
    ]
    assert charts["opt/entropy"]["yAxisMax"] == pytest.approx(0.6931, abs=1e-4)
    assert "opt/kl_stop_count" in charts
    assert charts["opt/grad_norm/*"]["metricRegex"] == "^opt/grad_norm/"
    assert {config["xAxis"] for config in charts.values()} == {"vec_steps"}
    shown = [name for panels in sections.values() for panel in panels for name in panel["config"].get("metrics", [])]
    assert len(shown) == len(set(shown)) == sum(1 for m in METRICS if "/" in m.name and not m.is_family)


def test_a_run_of_a_wandb_agent_keeps_the_id_it_was_given(tmp_path, monkeypatch):
    from gymlab.runs.paths import RunPaths
    from gymlab.trackers.assemble import Trackers, _wandb_record

    def chosen():
        return _wandb_record(Trackers("project"), {}, RunPaths(tmp_path / "mine"))["id"]

    monkeypatch.setenv("WANDB_RUN_ID", "abc12345")
    monkeypatch.delenv("WANDB_SWEEP_ID", raising=False)
    assert chosen().startswith("mine-")  # left over from another run of the user's
    monkeypatch.setenv("WANDB_SWEEP_ID", "sweep1")
    assert chosen() == "abc12345"
