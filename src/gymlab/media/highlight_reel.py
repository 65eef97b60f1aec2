"""Highlight reel of a run (`gymlab video`): titles, its checkpoints at play, the learning curve, early beside late."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from gymlab.core.errors import UserError
from gymlab.core.format import format_count
from gymlab.media.camera import why_no_film, without_screen
from gymlab.media.episode_trace import TraceRecord, read_csv
from gymlab.media.record_episode import record_missing
from gymlab.media.replay_page import format_result
from gymlab.media.video_file import FilmWriter, read_frames
from gymlab.recipes.resolve import read_run_recipe
from gymlab.runs.metrics_reader import CurveReader
from gymlab.runs.paths import RunPaths
from gymlab.runs.records import StatusRecord
from gymlab.runs.status import read_status
from gymlab.runs.videos import Clip, of_kind, table_path

MOST_CLIPS = 4

Colour = tuple[int, int, int]


@dataclass(frozen=True)
class ReelStyle:
    """Sizes are for 1920 x 1080; another size scales them."""

    size: tuple[int, int] = (1920, 1080)
    fps: int = 30
    title_seconds: float = 2.0
    clip_seconds: float = 6.0  # of each checkpoint, at most
    versus_seconds: float = 8.0
    background: Colour = (18, 21, 26)
    card: Colour = (27, 31, 39)
    ink: Colour = (238, 240, 243)
    quiet: Colour = (146, 154, 166)
    line: Colour = (86, 156, 214)
    accent: Colour = (247, 183, 49)


class ReelClip(NamedTuple):
    """A recorded episode in the reel: its pictures and the return so far at each."""

    frames: list[np.ndarray]
    fps: float
    title: str  # `30.21k env_steps`
    env_steps: int
    totals: list[float]  # one per picture
    total: float


class ReturnCurve(NamedTuple):
    """The return over training."""

    x: np.ndarray  # env_steps
    y: np.ndarray
    name: str
    goal: float | None = None


def make_reel(paths: RunPaths, target: Path, style: ReelStyle | None = None) -> int:
    """Write the reel of a run; how many episodes are in it."""
    if why := why_no_film():
        raise UserError(why)
    without_screen()
    recipe = read_run_recipe(paths.recipe)
    clips = select_clips(record_missing(paths, recipe, ["best", "last"]))
    style = style or ReelStyle()
    goal = recipe.env.solved_at
    reel = Reel(recipe.name, return_curve(paths, goal), style)
    about = {"title": f"{recipe.name}: {paths.run_id}", "run_id": paths.run_id}
    with FilmWriter(target, style.fps, about, crf=19) as film:
        for picture in _scenes(paths, reel, clips, recipe.name, read_status(paths)):
            film.add(picture)
    return len(clips)


def _scenes(paths: RunPaths, reel: Reel, clips: list[Clip], name: str, status: StatusRecord) -> Iterator[np.ndarray]:
    yield from reel.title([name, format_result(status), paths.run_id])
    seconds = max(reel.style.clip_seconds, reel.style.versus_seconds)
    for clip in clips:
        yield from reel.episode(load_clip(paths, clip, seconds))
    if len(clips) > 1:
        yield from reel.versus(load_clip(paths, clips[0], seconds), load_clip(paths, clips[-1], seconds))
    last = clips[-1].about
    yield from reel.title(
        [
            f"return {last['return']:.4g}",
            f"after {format_count(last['env_steps'], brief=True)} env_steps",
            "made with gymlab",
        ]
    )


def select_clips(found: list[Clip], most: int = MOST_CLIPS) -> list[Clip]:
    """A few films in order of steps: the earliest, some between, and the best or else the last."""
    if not found:
        raise UserError("the run has no film to show")
    best = (of_kind(found, "best") or of_kind(found, "final") or found)[-1]
    before = [clip for clip in found if clip.env_steps < best.env_steps]
    if len(before) >= most:
        places = np.linspace(0, len(before) - 1, most - 1).round().astype(int)
        before = [before[i] for i in sorted(set(places.tolist()))]
    return [*before, best]


def load_clip(paths: RunPaths, clip: Clip, seconds: float) -> ReelClip:
    """The first seconds of a film, without the captions below its pictures."""
    left, top, width, height = clip.about["picture"]
    fps = float(clip.about["fps"])
    stride = int(clip.about["stride"])
    frames = []
    for frame in read_frames(clip.path):
        frames.append(frame[top : top + height, left : left + width].copy())
        if len(frames) >= seconds * fps:
            break
    returns = [0.0, *(row["return_so_far"] for row in _rows(paths, clip))]
    totals = [returns[min(i * stride, len(returns) - 1)] for i in range(len(frames))]
    title = f"{', '.join(clip.kinds)}: {format_count(clip.env_steps, brief=True)} env_steps"
    return ReelClip(frames, fps, title, clip.env_steps, totals, float(clip.about["return"]))


def _rows(paths: RunPaths, clip: Clip) -> Sequence[TraceRecord]:
    table = table_path(paths, clip.env_steps)
    return read_csv(table) if table.is_file() else []


def return_curve(paths: RunPaths, goal: float | None) -> ReturnCurve:
    """The return of training episodes over env_steps."""
    name = "roll/return_mean"
    with CurveReader(paths.metrics) as reader:
        curve = reader.curves([name], "env_steps", 200)[name]
    return ReturnCurve(curve.x, curve.y, "return of training episodes", goal)


class Reel:
    """Draws the reel; each public method yields the frames of one scene."""

    def __init__(self, name: str, curve: ReturnCurve, style: ReelStyle | None = None) -> None:
        import pygame

        pygame.font.init()
        self._pygame = pygame
        self._name = name
        self._return_curve = curve
        self.style = style or ReelStyle()
        self._scale = self.style.size[1] / 1080
        self._canvas = pygame.Surface(self.style.size)
        self._fonts: dict[int, Any] = {}

    def title(self, lines: Sequence[str]) -> Iterator[np.ndarray]:
        """A large line, and smaller ones below it."""
        self._canvas.fill(self.style.background)
        y = 1080 // 2 - 60 - 30 * (len(lines) - 1)
        for i, text in enumerate(lines):
            size, colour = (110, self.style.ink) if i == 0 else (48, self.style.quiet)
            self._write(text, (960, y), size, colour, "centre")
            y += 130 if i == 0 else 66
        picture = self._frame()
        for _ in range(round(self.style.title_seconds * self.style.fps)):
            yield picture

    def episode(self, clip: ReelClip) -> Iterator[np.ndarray]:
        """An episode of a checkpoint, beside its place on the learning curve."""
        for frame, total in self._paced(clip, self.style.clip_seconds):
            self._canvas.fill(self.style.background)
            self._write(self._name, (60, 44), 44, self.style.quiet)
            self._write(clip.title, (60, 92), 76, self.style.ink)
            self._picture(frame, (60, 190, 1160, 830))
            self._card((1270, 190, 590, 250))
            self._write("return so far", (1310, 222), 38, self.style.quiet)
            self._write(_format_number(total), (1310, 268), 130, self.style.accent)
            self._write(f"{_format_number(clip.total)} in the end", (1310, 384), 38, self.style.quiet)
            self._curve((1270, 480, 590, 540), clip.env_steps)
            yield self._frame()

    def versus(self, early: ReelClip, late: ReelClip) -> Iterator[np.ndarray]:
        """The same episode, before and after."""
        pairs = zip(
            self._paced(early, self.style.versus_seconds, hold=True),
            self._paced(late, self.style.versus_seconds, hold=True),
            strict=False,
        )
        for left, right in pairs:
            self._canvas.fill(self.style.background)
            self._write("early and late", (60, 44), 44, self.style.quiet)
            for clip, (frame, total), x in ((early, left, 60), (late, right, 980)):
                self._write(clip.title, (x, 108), 60, self.style.ink)
                self._picture(frame, (x, 190, 880, 720))
                self._write(f"return {_format_number(total)}", (x, 950), 60, self.style.accent)
            yield self._frame()

    def _paced(self, clip: ReelClip, seconds: float, *, hold: bool = False) -> Iterator[tuple[np.ndarray, float]]:
        """A clip at the reel's frame rate, for at most `seconds`; with `hold` the last picture fills the rest."""
        length = len(clip.frames) / clip.fps
        duration = seconds if hold else min(seconds, max(length, 1.5))
        for i in range(round(duration * self.style.fps)):
            at = min(int(i / self.style.fps * clip.fps), len(clip.frames) - 1)
            yield clip.frames[at], clip.totals[at]

    def _curve(self, box: tuple[int, int, int, int], env_steps: int) -> None:
        x, y, wide, tall = box
        self._card(box)
        curve = self._return_curve
        style = self.style
        self._write(curve.name, (x + 30, y + 24), 36, style.quiet)
        if len(curve.x) < 2:
            return
        left = x + 40
        top = y + 90
        right = x + wide - 40
        bottom = y + tall - 60
        values = [*curve.y, *([curve.goal] if curve.goal is not None else [])]
        low, high = float(min(values)), float(max(values))
        span = (high - low) or 1.0
        end = max(float(curve.x[-1]), 1.0)

        def place(at: float, value: float) -> tuple[float, float]:
            share = min(1.0, at / end)
            return self._px(left + share * (right - left)), self._px(bottom - (value - low) / span * (bottom - top))

        if curve.goal is not None:
            ends = place(0, curve.goal), place(end, curve.goal)
            self._pygame.draw.line(self._canvas, style.quiet, *ends, max(1, self._px(2)))
            self._write(
                "solved", (right - 84, bottom - (curve.goal - low) / span * (bottom - top) + 8), 28, style.quiet
            )
        points = [place(float(a), float(b)) for a, b in zip(curve.x, curve.y, strict=True)]
        self._pygame.draw.lines(self._canvas, style.line, False, points, max(2, self._px(4)))
        here = place(env_steps, float(np.interp(env_steps, curve.x, curve.y)))
        self._pygame.draw.circle(self._canvas, style.accent, here, self._px(13))
        self._write(f"{_format_number(end)} env_steps", (right, bottom + 16), 30, style.quiet, "right")

    def _picture(self, frame: np.ndarray, box: tuple[int, int, int, int]) -> None:
        """The env's picture as large as fits; small pictures are scaled without smoothing."""
        x, y, wide, tall = (self._px(value) for value in box)
        height, width = frame.shape[:2]
        times = min(wide / width, tall / height)
        size = (round(width * times), round(height * times))
        surface = self._pygame.image.frombuffer(np.ascontiguousarray(frame).tobytes(), (width, height), "RGB")
        change = self._pygame.transform.smoothscale if times < 3 else self._pygame.transform.scale
        self._canvas.blit(change(surface, size), (x + (wide - size[0]) // 2, y + (tall - size[1]) // 2))

    def _card(self, box: tuple[int, int, int, int]) -> None:
        place = tuple(self._px(value) for value in box)
        self._pygame.draw.rect(self._canvas, self.style.card, place, border_radius=self._px(16))

    def _write(
        self, text: str, at: tuple[float, float], size: int, colour: Colour, align: Literal["", "centre", "right"] = ""
    ) -> None:
        drawn = self._font(size).render(text, True, colour)
        before = {"": 0, "centre": drawn.get_width() // 2, "right": drawn.get_width()}[align]
        x = self._px(at[0]) - before
        self._canvas.blit(drawn, (x, self._px(at[1])))

    def _font(self, size: int) -> Any:
        if size not in self._fonts:
            self._fonts[size] = self._pygame.font.Font(None, max(8, self._px(size)))
        return self._fonts[size]

    def _px(self, value: float) -> int:
        return round(value * self._scale)

    def _frame(self) -> np.ndarray:
        width, height = self.style.size
        raw = self._pygame.image.tobytes(self._canvas, "RGB")
        return np.frombuffer(raw, np.uint8).reshape(height, width, 3)


def _format_number(value: float) -> str:
    if not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 or float(value).is_integer() else f"{value:.4g}"
