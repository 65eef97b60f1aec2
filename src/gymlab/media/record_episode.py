"""Recording of episodes: one episode of the env as a film with its JSON file, or as a CSV trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gymlab.core.clock import Clock
from gymlab.core.errors import RunError, UserError
from gymlab.core.format import format_count
from gymlab.core.rng import episode_seed
from gymlab.media.camera import Camera, enlarged, env_fps, make_filmed, stride_for, why_no_film
from gymlab.media.episode_trace import EpisodeTrace, TraceDecision, to_csv
from gymlab.media.overlay import Bar, Caption, Overlay, VideoOverlayStyle, bars_of
from gymlab.media.policy_player import EpisodeOptions, PolicyPlayer, open_player
from gymlab.media.video_file import FilmWriter
from gymlab.recipes.resolve import read_run_recipe
from gymlab.recipes.schema import Recipe
from gymlab.runs import files, tensors
from gymlab.runs.checkpoints import Loaded, load_checkpoint
from gymlab.runs.paths import RunPaths
from gymlab.runs.records import VideoRecord
from gymlab.runs.videos import (
    Clip,
    clip_path,
    recorder_of,
    scan,
    scan_pending,
    table_path,
    wait_for_recorder,
)
from gymlab.training.state import Policy

FORMAT = 1
END_SECONDS = 0.6  # that the last picture is held
RECORDER_SECONDS = 300.0  # to wait for the process that makes the films of a run that has just ended


@dataclass(frozen=True)
class RecordOptions:
    """Which episode of a run to record, and how."""

    clock: Clock
    kinds: tuple[str, ...]
    seed: int
    greedy: bool = True
    max_steps: int = 1000
    fps: int = 30  # at most


def open_filmed_player(recipe: Recipe) -> PolicyPlayer:
    """A player with a camera; UserError where the env cannot be filmed."""
    return open_player(recipe, lambda settings: make_filmed(settings, recipe.imports))


def record_clip(
    paths: RunPaths,
    player: PolicyPlayer,
    policy: Policy,
    options: RecordOptions,
    style: VideoOverlayStyle | None = None,
) -> Clip:
    """Film one episode into the run: its trace, its JSON file, and last the film itself."""
    steps = options.clock.env_steps
    path = clip_path(paths, steps, options.kinds[0])
    table = table_path(paths, steps)
    for folder in (paths.videos, paths.rollouts):
        paths.inside(folder).mkdir(exist_ok=True)
    known: VideoRecord = {
        "format": FORMAT,
        "run_id": paths.run_id,
        "recipe": player.recipe.name,
        "checkpoint": str(steps),
        "kinds": list(options.kinds),
        "env_steps": options.clock.env_steps,
        "vec_steps": options.clock.vec_steps,
        "updates": options.clock.updates,
        "seed": options.seed,
        "episode_seed": episode_seed(options.seed, 0, 0, evaluation=True),
        "policy": "greedy" if options.greedy else "sampled",
    }
    title = f"{format_count(steps, brief=True)} env_steps"
    about = VideoRecord()

    def finished(episode: EpisodeTrace, facts: VideoRecord) -> None:
        files.write_text(table, to_csv(episode.rows))
        about.update(known)
        about.update(facts)
        about.update({"table": f"{paths.rollouts.name}/{table.name}", "labels": list(player.labels)})
        about.update({"return": episode.total, "length": len(episode.rows), "ended": episode.ended})
        files.write_json(path.with_suffix(".json"), about)

    metadata = {**known, "title": f"{player.recipe.name} at {title}"}
    film_episode(path, player, policy, options, Captions(title, metadata, style), finished)
    return Clip(path, steps, options.kinds, about)


def record_trace(paths: RunPaths, player: PolicyPlayer, policy: Policy, options: RecordOptions) -> Path:
    """Write the trace of an episode, without a film."""
    target = table_path(paths, options.clock.env_steps)
    paths.inside(paths.rollouts).mkdir(exist_ok=True)
    files.write_text(target, to_csv(player.play(policy, episode_options(player, options)).rows))
    return target


def episode_options(player: PolicyPlayer, options: RecordOptions) -> EpisodeOptions:
    """The episode to record: the same whether it is filmed or not."""
    return EpisodeOptions(
        options.seed, options.greedy, options.max_steps, stride=stride_for(env_fps(player.env), options.fps)
    )


def record_options(recipe: Recipe, loaded: Loaded, kind: str) -> RecordOptions:
    """How the recipe records a checkpoint."""
    return _options(recipe, Clock(**loaded.info["clock"]), (kind,))


def _options(recipe: Recipe, clock: Clock, kinds: tuple[str, ...]) -> RecordOptions:
    video = recipe.video
    return RecordOptions(clock, kinds, recipe.eval.seed, not video.sampled, video.clip_steps, video.fps)


def record_missing(paths: RunPaths, recipe: Recipe, which: list[str]) -> list[Clip]:
    """The run's films, with those of pending policies and of the named checkpoints added where there are none yet."""
    if not wait_for_recorder(paths, RECORDER_SECONDS):
        raise RunError(f"the films of '{paths.run_id}' are still being made by {recorder_of(paths)}: try again later")
    pending = scan_pending(paths)
    found = scan(paths)
    loaded = {name: load_checkpoint(paths, name, with_state=False) for name in which}
    missing = {one.info["clock"]["env_steps"]: (one, name) for name, one in reversed(loaded.items())}
    known = {*(clip.env_steps for clip in found), *(clip.clock.env_steps for clip in pending)}
    missing = {steps: both for steps, both in missing.items() if steps not in known}
    if not missing and not pending:
        return found
    if why := why_no_film():
        raise UserError(why)
    player = open_filmed_player(recipe)
    try:
        for clip in pending:
            policy = player.policy(tensors.decode(files.read_bytes(clip.policy)))
            record_clip(paths, player, policy, _options(recipe, clip.clock, clip.kinds))
            clip.remove()
        for one, name in missing.values():
            kind = {"best": "best", "last": "final"}.get(name, "checkpoint")
            record_clip(paths, player, player.policy(one.policy), record_options(recipe, one, kind))
    finally:
        player.close()
    return scan(paths)


def export_table(paths: RunPaths, which: str, target: Path, *, seed: int | None, sampled: bool) -> int:
    """Write the trace of one episode as CSV; how many steps it has."""
    recipe = read_run_recipe(paths.recipe)
    loaded = load_checkpoint(paths, which, with_state=False)
    player = open_player(recipe)
    try:
        usual = record_options(recipe, loaded, "table")
        options = replace(usual, seed=usual.seed if seed is None else seed, greedy=usual.greedy and not sampled)
        episode = player.play(player.policy(loaded.policy), episode_options(player, options))
    finally:
        player.close()
    write_export(target, to_csv(episode.rows))
    return len(episode.rows)


def write_export(target: Path, text: str) -> None:
    """Write a file that the user named; UserError where that fails."""
    try:
        files.write_text(target, text)
    except OSError as error:
        raise UserError(f"cannot write '{target}': {error.strerror}") from error


@dataclass(frozen=True)
class Captions:
    """Texts of a film: below the pictures, and in the file's metadata."""

    title: str
    about: Mapping[str, object]
    style: VideoOverlayStyle | None = None


def film_episode(
    path: Path,
    player: PolicyPlayer,
    policy: Policy,
    options: RecordOptions,
    captions: Captions,
    finished: Callable[[EpisodeTrace, VideoRecord], None] = lambda *_: None,
) -> EpisodeTrace:
    """Film one episode. `finished(episode, facts of the film)` is called before the film gets its name."""
    camera = player.env
    assert isinstance(camera, Camera)
    chosen_episode = episode_options(player, options)
    stride = chosen_episode.stride
    fps = camera.fps / stride
    frames = FilmFrames(camera, player, captions)
    with FilmWriter(path, fps, captions.about) as film:

        def on_decision(decision: TraceDecision) -> None:
            if decision.step % stride == 0:
                film.add(frames.draw(decision))

        episode = player.play(policy, chosen_episode, on_decision)
        last = frames.end(episode)
        for _ in range(max(1, round(END_SECONDS * fps))):
            film.add(last)
        facts: VideoRecord = {
            "fps": fps,
            "frames": film.frames,
            "stride": stride,
            "size": list(film.size),
            "picture": frames.place,
        }
        finished(episode, facts)
    return episode


class FilmFrames:
    """Draws the frames of a film: the camera's picture with a caption below."""

    def __init__(self, camera: Camera, player: PolicyPlayer, captions: Captions) -> None:
        self._camera = camera
        self._player = player
        self._captions = captions
        self._overlay: Overlay | None = None
        self._bars: list[Bar] = []
        self._value = float("nan")
        self.place: list[int] = []  # of the env's picture in the film: left, top, width, height

    def draw(self, decision: TraceDecision) -> np.ndarray:
        """The frame of the env's current state and the decision made in it."""
        player = self._player
        self._bars = bars_of(
            player.spaces.action, decision.action, decision.probabilities, player.labels, decision.label
        )
        self._value = decision.value
        return self._captioned(self._camera.picture(), decision.step, decision.return_so_far)

    def end(self, episode: EpisodeTrace) -> np.ndarray:
        """The last frame, with the whole return."""
        last = None if episode.ended == "cut" else self._camera.last
        picture = self._camera.picture() if last is None else last
        return self._captioned(picture, len(episode.rows), episode.total)

    def _captioned(self, picture: np.ndarray, step: int, total: float) -> np.ndarray:
        picture = enlarged(picture)
        height, width = picture.shape[:2]
        if self._overlay is None:
            self._overlay = Overlay(width, self._captions.style)
            self.place = [0, 0, width, height]
        return self._overlay.below(picture, Caption(step, total, self._value, self._bars, self._captions.title))
