"""Films: their metadata, atomic writing, and training that they do not change."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import gymnasium
import numpy as np
import pytest

from gymlab.core.clock import Clock
from gymlab.core.errors import UserError
from gymlab.features.video import MOST_PENDING, ClipOptions, FilmsAtEnd, Video
from gymlab.media.camera import enlarged, ensure_rgb_render_support, stride_for
from gymlab.media.overlay import Bar, Caption, Overlay, VideoOverlayStyle, bars_of, most_relevant
from gymlab.media.record_episode import record_missing
from gymlab.media.video_file import FilmWriter, read_about, read_frames
from gymlab.recipes.resolve import read_run_recipe
from gymlab.reports.page import page
from gymlab.reports.run_facts import read_facts
from gymlab.runs import files, videos
from gymlab.runs.checkpoint_folder import POLICY
from gymlab.runs.checkpoints import load_checkpoint
from gymlab.runs.locks import RunLock, RunLocked
from gymlab.runs.logs import strip_escapes
from gymlab.runs.metrics_reader import MetricsReader
from gymlab.runs.paths import RunPaths
from gymlab.runs.status import read_status
from gymlab.runs.store import remove_run
from gymlab.session.evaluator.scorer import open_scorer
from gymlab.training.events import Checkpointed, Ended, Started
from gymlab.training.named_tensors import from_tensors
from tests.running import assert_same_run, environment, gymlab
from tests.terminal.terminal_command import TerminalCommand
from tests.waiting import wait_until, wait_until_gone

av = pytest.importorskip("av")


def test_first_best_and_final_policies_are_filmed(solved_run):
    found = videos.scan(solved_run)
    assert found[0].env_steps == 0
    assert "first" in found[0].kinds
    assert {"best", "final"} <= {*found[-1].kinds}
    assert videos.best_clip(solved_run).path == found[-1].path
    assert found[-1].about["return"] == 500


def test_film_metadata_agrees_with_its_json_file_and_the_metrics(solved_run):
    with MetricsReader(solved_run.metrics) as reader:
        for clip in videos.scan(solved_run):
            inside = read_about(clip.path)
            for name in ("run_id", "env_steps", "vec_steps", "updates", "seed", "policy"):
                assert inside[name] == clip.about[name], name
            if clip.about["updates"]:
                row = reader.row(clip.about["updates"])
                assert (row["env_steps"], row["vec_steps"]) == (clip.about["env_steps"], clip.about["vec_steps"])


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["async", "sync"])
def test_every_evaluation_is_filmed_with_the_scored_policy_and_first_episode(mode, folder):
    tiny = ["n_envs=8", "n_steps=32", "batch_size=128", "policy.hidden=[16]", "metrics.statistics=basic"]
    often = ["eval.every=10%", "eval.episodes=4", "eval.final_episodes=5", "checkpoints.keep=100"]
    gymlab("train", "CartPole-v1:ppo", *tiny, *often, "video.clips=[evaluation]", f"eval.mode={mode}",
           "--budget", "10k", "--full-budget", "-q", "--run-id", "one", cwd=folder, GYMLAB_VIDEO="on")  # fmt: skip
    run = RunPaths(folder / "runs/one")
    with MetricsReader(run.metrics) as reader:
        rows = reader.read(["env_steps", "eval/greedy_mean"])
    found, scorer = videos.scan(run), open_scorer(read_run_recipe(run.recipe))
    assert [clip.env_steps for clip in found] == rows["env_steps"][~np.isnan(rows["eval/greedy_mean"])].tolist()
    assert len(found) == 10  # far more than can wait while they train
    for clip in found:
        policy = from_tensors(scorer.policy_template(), load_checkpoint(run, str(clip.env_steps)).policy)
        scored = scorer.evaluator.evaluate(policy, episodes=1, seed=clip.about["seed"], max_envs=1)
        assert clip.about["return"] == scored.greedy.mean
        assert read_about(clip.path)["env_steps"] == clip.env_steps


def test_film_is_h264_with_the_index_first(solved_run):
    clip = videos.scan(solved_run)[0]
    with av.open(str(clip.path)) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
        assert [stream.width, stream.height] == clip.about["size"]
        assert stream.width % 2 == stream.height % 2 == 0
        assert float(stream.average_rate) == clip.about["fps"] == 25
    assert len(list(read_frames(clip.path))) == clip.about["frames"]
    raw = clip.path.read_bytes()
    assert raw.index(b"moov") < raw.index(b"mdat")


def test_film_frame_is_the_env_picture_with_a_caption_below(solved_run):
    clip = videos.scan(solved_run)[0]
    frame = next(iter(read_frames(clip.path)))
    left, top, width, height = clip.about["picture"]
    env = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    env.reset(seed=clip.about["episode_seed"])
    true = env.render()
    env.close()
    assert np.abs(frame[top : top + height, left : left + width].astype(int) - true).mean() < 2
    assert frame[height + 2 :].mean() < 60  # dark


@pytest.mark.slow
def test_training_is_the_same_with_and_without_films(solved_run, cli):
    assert cli("train", "CartPole-v1:ppo", "-q", "--run-id", "without").code == 0
    without = cli.folder / "runs" / "without"
    assert_same_run(without, solved_run.root)
    assert not (without / "videos").exists()
    left = [path.name for path in solved_run.videos.iterdir() if files.TEMP_MARK in path.name]
    assert left == []


def test_runs_show_names_the_best_film(solved_run, cli):
    assert str(videos.best_clip(solved_run).path) in cli("runs", "show", solved_run.root).out


@pytest.fixture
def unfilmed(solved_run, tmp_path, monkeypatch):
    """A run of which nothing is filmed yet, and a checkpoint to film."""
    monkeypatch.setenv("GYMLAB_VIDEO", "on")
    paths = RunPaths(tmp_path / "run")
    paths.root.mkdir()
    shutil.copy(solved_run.recipe, paths.recipe)
    return paths, next(solved_run.checkpoints.glob("[0-9]*"))


def test_video_queue_keeps_the_newest_two_policies(unfilmed):
    paths, checkpoint = unfilmed
    control = SimpleNamespace(interrupted=False)

    def fail(video):
        video(Started(Clock()), control)
        for number in range(5):
            clock = Clock(updates=number, env_steps=100 * number)
            video(Checkpointed(clock, checkpoint, ("best",), 0.0, 0), control)
        assert video._recording.clock.env_steps == 0
        assert [waiting.clock.env_steps for waiting in video._pending] == [300, 400]
        assert len(video._pending) == MOST_PENDING
        assert video.dropped == 2
        raise KeyError  # a run that fails does not wait for its films

    with pytest.raises(KeyError), Video(paths, ClipOptions()) as video:
        fail(video)
    assert videos.scan(paths) == []
    assert [clip.clock.env_steps for clip in videos.scan_pending(paths)] == [0, 300, 400]


def test_a_resumed_run_films_what_it_was_interrupted_in(unfilmed):
    paths, checkpoint = unfilmed
    paths.videos.mkdir()
    for steps in (100, 200):
        videos.add_pending(paths, checkpoint / POLICY, Clock(updates=1, env_steps=steps), ("best",))
    with Video(paths, ClipOptions(max_steps=5)) as video:
        video(Started(Clock(updates=1, env_steps=100), resumed=True), SimpleNamespace(interrupted=False))
    assert [clip.env_steps for clip in videos.scan(paths)] == [100]  # the run trains beyond the other one again
    assert not paths.pending_videos.exists()


def test_films_are_made_after_the_command_when_its_terminal_is_closed(folder):
    tiny = ["n_envs=8", "n_steps=32", "batch_size=128", "policy.hidden=[16]", "metrics.statistics=basic"]
    short = ["eval.episodes=2", "eval.final_episodes=2", "--budget", "512", "--full-budget", "--run-id", "one"]
    command = TerminalCommand(folder, "train", "CartPole-v1:ppo", *tiny, *short, GYMLAB_VIDEO="on", CI="")
    run = RunPaths(folder / "runs/one")
    try:
        assert command.end() == 0
        written = strip_escapes(command.written.decode()).strip()
        assert re.search(r"in [\d.]+ s of training, [\d.]+ s in all", written)
        assert re.search(r"films? (is|are) still being made: .*one/videos\b", written)
        assert read_status(run)["status"] == "finished"
        command.close_terminal()
        wait_until(lambda: not run.pending_videos.exists() and videos.recorder_of(run) is None, "the films")
    finally:
        command.close()
    assert "filming" not in read_status(run)
    assert "first" in videos.scan(run)[0].kinds
    assert {"best", "final"} & {*videos.scan(run)[-1].kinds}


def test_films_of_a_killed_recorder_are_made_by_the_video_command(unfilmed, solved_run):
    paths, checkpoint = unfilmed
    for name in ("manifest.json", "metrics.db"):
        shutil.copy(solved_run.root / name, paths.root / name)
    shutil.copytree(solved_run.checkpoints, paths.checkpoints)
    control = SimpleNamespace(interrupted=False)
    with Video(paths, ClipOptions(max_steps=5), at_end=FilmsAtEnd(leave=True)) as video:
        video(Started(Clock()), control)
        wait_until(lambda: videos.recorder_of(paths), "the recorder")
        os.kill(video._recorder.pid, signal.SIGSTOP)
        video(Checkpointed(Clock(), checkpoint, ("last",), 0.0, 0), control)
        recorder = video._recorder.pid
        video(Ended(Clock(), "budget reached", "finished"), control)
    assert video.left == read_status(paths)["filming"] == 1
    assert f"1 film still being made by pid {recorder}" in "\n".join(page(read_facts(paths, {}), {}))
    os.kill(recorder, signal.SIGKILL)
    wait_until_gone([recorder])
    assert f"1 film missing: `gymlab video {paths.run_id}` makes it" in "\n".join(page(read_facts(paths, {}), {}))
    made = record_missing(paths, read_run_recipe(paths.recipe), ["best"])
    assert made[0].kinds == ("first", "final")
    assert videos.scan_pending(paths) == []


def test_a_run_whose_films_are_being_made_is_not_removed(unfilmed):
    paths, _ = unfilmed
    paths.videos.mkdir()
    lock = RunLock(paths.recorder_lock)
    lock.acquire()
    try:
        with pytest.raises(RunLocked, match="films of run 'run' are still being made"):
            remove_run(paths)
    finally:
        lock.release()
    assert paths.root.exists()


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_member_of_a_group_is_filmed_at_its_end(unfilmed, interrupted):
    paths, checkpoint = unfilmed
    control = SimpleNamespace(interrupted=interrupted)
    with Video(paths, ClipOptions(max_steps=5, at_end=True)) as video:
        video(Started(Clock()), control)
        for number in range(5):
            kinds = ("best",) if number < 4 else ("last",)
            video(Checkpointed(Clock(updates=number, env_steps=100 * number), checkpoint, kinds, 0.0, 0), control)
        assert video._recorder is None
        assert [waiting.clock.env_steps for waiting in video._pending] == [0, 300, 400]
        video(Ended(Clock(updates=5, env_steps=500), "budget reached", "finished"), control)
        assert video._recorder is None
    found = {clip.env_steps: clip.kinds for clip in videos.scan(paths)}
    films = {0: ("first", "best"), 300: ("best",), 400: ("final",)}
    assert found == ({} if interrupted else films)
    left = {clip.clock.env_steps: clip.kinds for clip in videos.scan_pending(paths)}
    assert left == (films if interrupted else {})
    assert not [path for path in paths.videos.iterdir() if files.TEMP_MARK in path.name]


def test_recorder_exits_with_its_parent(tmp_path):
    (tmp_path / "run").mkdir()
    program = (
        "import time; from pathlib import Path; from gymlab.features.video import *\n"
        f"recorder = RecorderProcess(RunPaths(Path({str(tmp_path / 'run')!r})), ClipOptions())\n"
        "print(recorder.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], env=environment(), stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    wait_until_gone([child])


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_killed_film_writer_leaves_no_film(tmp_path):
    program = (
        "import numpy as np; from pathlib import Path; from gymlab.media.video_file import FilmWriter\n"
        f"with FilmWriter(Path({str(tmp_path / 'film.mp4')!r}), 30) as film:\n"
        "    for i in range(10**6):\n"
        "        film.add(np.random.default_rng(i).integers(0, 255, (64, 64, 3), np.uint8))\n"
        "        if i == 100: print('going', flush=True)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", program], env=environment(), stdout=subprocess.PIPE, text=True)
    assert writer.stdout.readline() == "going\n"
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    left = [path.name for path in tmp_path.iterdir()]
    assert len(left) == 1
    assert left[0].startswith(".film.mp4" + files.TEMP_MARK)
    files.sweep_temp_files(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_film_writer_with_an_error_or_no_picture_leaves_no_file(tmp_path):
    def fail(film):
        film.add(np.zeros((32, 32, 3), np.uint8))
        raise KeyError

    with pytest.raises(KeyError), FilmWriter(tmp_path / "a.mp4", 30) as film:
        fail(film)
    with pytest.raises(ValueError, match="at least one picture"), FilmWriter(tmp_path / "b.mp4", 30):
        pass
    assert list(tmp_path.iterdir()) == []


def test_highlight_reel_has_titles_checkpoints_and_early_beside_late(solved_run, cli):
    done = cli("video", solved_run.root, "--out", "reel.mp4", "--height", "180", "--seconds", "0.5")
    assert done.code == 0, done.err
    frames = list(read_frames(cli.folder / "reel.mp4"))
    assert frames[0].shape == (180, 320, 3)
    takes = int(re.search(r"reel of (\d+) episodes", done.out)[1])
    # Two titles of 2 s, half a second of each checkpoint, 8 s of early beside late, at 30 pictures a second.
    assert len(frames) == 30 * (2 + 8 + 2) + 15 * takes
    beside = frames[60 + 15 * takes + 30]
    left, right = beside[60:130, :150].astype(int), beside[60:130, 170:].astype(int)
    assert min(left.max(), right.max()) > 200  # two pictures
    assert np.abs(left - right).mean() > 1  # that differ


def test_film_pads_odd_sizes_to_even(tmp_path):
    with FilmWriter(tmp_path / "odd.mp4", 10) as film:
        for _ in range(3):
            film.add(np.full((33, 47, 3), 200, np.uint8))
    assert next(read_frames(tmp_path / "odd.mp4")).shape == (34, 48, 3)


def test_resume_removes_films_after_the_resumed_step(tmp_path):
    paths = RunPaths(tmp_path)
    paths.videos.mkdir()
    paths.rollouts.mkdir()
    for steps, kind in ((0, "first"), (100, "best"), (200, "best")):
        path = videos.clip_path(paths, steps, kind)
        path.write_bytes(b"film")
        path.with_suffix(".json").write_text(json.dumps({"env_steps": steps, "kinds": [kind]}))
        videos.table_path(paths, steps).write_text("table")
    (paths.videos / "300-best.mp4").write_bytes(b"no sidecar")
    (paths.videos / "holiday.mp4").write_bytes(b"foreign")
    (paths.videos / f".100-best.mp4{files.TEMP_MARK}1").write_bytes(b"half")
    assert [clip.env_steps for clip in videos.scan(paths)] == [0, 100, 200]
    videos.cut_clips_after(paths, 100)
    assert [clip.env_steps for clip in videos.scan(paths)] == [0, 100]
    assert videos.best_clip(paths).env_steps == 100
    assert sorted(path.name for path in paths.rollouts.iterdir()) == ["0.csv", "100.csv"]
    assert not any(files.TEMP_MARK in path.name for path in paths.videos.iterdir())
    videos.add_kinds(videos.best_clip(paths), ("final",))
    assert videos.best_clip(paths).kinds == ("best", "final")


def test_env_without_rgb_render_mode_is_refused_with_its_modes():
    class Blind(gymnasium.Env):
        metadata: ClassVar = {"render_modes": ["ansi"]}

    with pytest.raises(UserError, match=r"Blind cannot be filmed: .* 'rgb_array' \(it offers ansi\)"):
        ensure_rgb_render_support(Blind())


def test_overlay_style_has_defaults_and_hides_parts():
    style = VideoOverlayStyle()
    assert (style.font_size, style.bars) == (22, 6)
    assert style.shown == ("step", "return", "value", "title", "actions")
    caption = Caption(7, 12.5, 3.0, [Bar("left", 0.25), Bar("right", 0.75, True)], "10k env_steps")
    overlay = Overlay(600)
    strip = overlay.strip(caption)
    assert strip.shape == (overlay.height, 600, 3)
    assert (strip == style.chosen).all(-1).any()  # the chosen bar
    bare = Overlay(600, VideoOverlayStyle(shown=("step",)))
    assert bare.height < overlay.height
    assert not (bare.strip(caption) == style.chosen).all(-1).any()
    assert overlay.below(np.zeros((400, 600, 3), np.uint8), caption).shape == (400 + overlay.height, 600, 3)


def test_overlay_shows_the_chosen_and_likeliest_of_many_actions():
    bars = [Bar(str(i), share, i == 0) for i, share in enumerate((0.01, 0.5, 0.02, 0.3, 0.17))]
    assert [bar.label for bar in most_relevant(bars, 3)] == ["0", "1", "3"]


def test_overlay_bar_shows_a_continuous_action_within_its_range():
    space = gymnasium.spaces.Box(-2, 2, (1,), np.float32)
    (bar,) = bars_of(space, np.array([1.0], np.float32), (), (), "1")
    assert (bar.share, bar.centred) == (0.75, True)


def test_small_pictures_are_enlarged_and_fast_envs_skip_frames():
    assert enlarged(np.zeros((210, 160, 3), np.uint8)).shape == (630, 480, 3)  # Pong
    assert enlarged(np.zeros((400, 600, 3), np.uint8)).shape == (400, 600, 3)
    assert [stride_for(fps, 30) for fps in (4, 30, 50, 67)] == [1, 1, 2, 3]
