"""Filming a policy: one episode of the real env, written as a film, its JSON file and its table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymlab.core.clock import Clock
from gymlab.core.format import format_count
from gymlab.core.rng import episode_seed
from gymlab.media.camera import Camera, enlarged, env_fps, make_filmed, stride_for
from gymlab.media.episode_trace import Episode, Moment, Wanted, to_csv
from gymlab.media.overlay import Bar, Caption, Overlay, VideoOverlayStyle, bars_of
from gymlab.media.policy_player import Stage, open_stage
from gymlab.media.writer import FilmWriter
from gymlab.recipes.schema import Recipe
from gymlab.runs import files
from gymlab.runs.films import Clip, clip_path, table_path
from gymlab.runs.paths import RunPaths
from gymlab.training.state import Policy

FORMAT = 1
END_SECONDS = 0.6  # for which the last picture stands still


@dataclass(frozen=True)
class Shot:
    """What to film of a run."""

    clock: Clock
    kinds: tuple[str, ...]
    seed: int
    greedy: bool = True
    max_steps: int = 1000
    fps: int = 30  # at most


def filmed_stage(recipe: Recipe) -> Stage:
    """A stage with a camera; UserError where the env cannot be filmed."""
    return open_stage(recipe, lambda settings: make_filmed(settings, recipe.imports))


def record_clip(
    paths: RunPaths, stage: Stage, policy: Policy, shot: Shot, style: VideoOverlayStyle | None = None
) -> Clip:
    """Film one episode into the run: the table, what is known about it, and last the film itself."""
    steps = shot.clock.env_steps
    path = clip_path(paths, steps, shot.kinds[0])
    table = table_path(paths, steps)
    for folder in (paths.videos, paths.rollouts):
        paths.inside(folder).mkdir(exist_ok=True)
    known = {
        "format": FORMAT,
        "run_id": paths.run_id,
        "recipe": stage.recipe.name,
        "checkpoint": str(steps),
        "kinds": list(shot.kinds),
        **{name: getattr(shot.clock, name) for name in ("env_steps", "vec_steps", "updates")},
        "seed": shot.seed,
        "episode_seed": episode_seed(shot.seed, 0, 0, evaluation=True),
        "policy": "greedy" if shot.greedy else "sampled",
    }
    title = f"{format_count(steps, brief=True)} env_steps"
    about: dict[str, Any] = {}

    def finished(episode: Episode, facts: dict[str, Any]) -> None:
        files.write_text(table, to_csv(episode.rows))
        about.update(known, **facts, table=f"{paths.rollouts.name}/{table.name}", labels=list(stage.labels))
        about.update({"return": episode.total, "length": len(episode.rows), "ended": episode.ended})
        files.write_json(path.with_suffix(".json"), about)

    told = {**known, "title": f"{stage.recipe.name} at {title}"}
    film_episode(path, stage, policy, shot, Captions(title, told, style), finished)
    return Clip(path, steps, shot.kinds, about)


def record_table(paths: RunPaths, stage: Stage, policy: Policy, shot: Shot) -> Path:
    """The table of an episode, without a film."""
    target = table_path(paths, shot.clock.env_steps)
    paths.inside(paths.rollouts).mkdir(exist_ok=True)
    files.write_text(target, to_csv(stage.play(policy, wanted(stage, shot)).rows))
    return target


def wanted(stage: Stage, shot: Shot) -> Wanted:
    """The episode of a shot: the same whether it is filmed or not."""
    return Wanted(shot.seed, shot.greedy, shot.max_steps, stride=stride_for(env_fps(stage.env), shot.fps))


@dataclass(frozen=True)
class Captions:
    """What is written into a film: below the pictures, and inside the file."""

    title: str
    about: dict[str, Any]
    style: VideoOverlayStyle | None = None


def film_episode(
    path: Path, stage: Stage, policy: Policy, shot: Shot, captions: Captions, finished: Any = lambda *_: None
) -> Episode:
    """Film one episode. `finished(episode, facts of the film)` is called before the film gets its name."""
    camera = stage.env
    assert isinstance(camera, Camera)
    asked = wanted(stage, shot)
    stride = asked.stride
    fps = camera.fps / asked.stride
    scene = Scene(camera, stage, captions)
    with FilmWriter(path, fps, captions.about) as film:

        def on_moment(moment: Moment) -> None:
            if moment.step % stride == 0:
                film.add(scene.take(moment))

        episode = stage.play(policy, asked, on_moment)
        last = scene.end(episode)
        for _ in range(max(1, round(END_SECONDS * fps))):
            film.add(last)
        facts = {"fps": fps, "frames": film.frames, "stride": stride, "size": list(film.size), "picture": scene.place}
        finished(episode, facts)
    return episode


class Scene:
    """Pictures with captions, from a camera and what the policy thinks."""

    def __init__(self, camera: Camera, stage: Stage, captions: Captions) -> None:
        self._camera = camera
        self._stage = stage
        self._captions = captions
        self._overlay: Overlay | None = None
        self._bars: list[Bar] = []
        self._value = float("nan")
        self.place: list[int] = []  # of the env's picture in the film: left, top, width, height

    def take(self, moment: Moment) -> Any:
        """The env as it is now, and what is about to be done."""
        stage = self._stage
        self._bars = bars_of(stage.spaces.action, moment.action, moment.probabilities, stage.labels, moment.label)
        self._value = moment.value
        return self._drawn(self._camera.picture(), moment.step, moment.return_so_far)

    def end(self, episode: Episode) -> Any:
        """The last picture, with the whole return."""
        cut = episode.ended == "cut" or self._camera.last is None
        picture = self._camera.picture() if cut else self._camera.last
        return self._drawn(picture, len(episode.rows), episode.total)

    def _drawn(self, picture: Any, step: int, total: float) -> Any:
        picture = enlarged(picture)
        height, width = picture.shape[:2]
        if self._overlay is None:
            self._overlay = Overlay(width, self._captions.style)
            self.place = [0, 0, width, height]
        return self._overlay.below(picture, Caption(step, total, self._value, self._bars, self._captions.title))
