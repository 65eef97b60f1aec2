"""A 1080p film about a run: titles, its checkpoints at play, the learning curve, early beside late."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

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


class Take(NamedTuple):
    """An episode to show: its pictures, what is known of it, and the return so far at each picture."""

    frames: list[np.ndarray]
    fps: float
    title: str  # `30.21k env_steps`
    env_steps: int
    totals: list[float]  # one per picture
    total: float


class Course(NamedTuple):
    """How the return went over training."""

    x: np.ndarray  # env_steps
    y: np.ndarray
    name: str
    goal: float | None = None


class Reel:
    """Yields pictures; each method is one scene."""

    def __init__(self, name: str, course: Course, style: ReelStyle | None = None) -> None:
        import pygame

        pygame.font.init()
        self._pygame = pygame
        self._name = name
        self._course = course
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
        picture = self._taken()
        for _ in range(round(self.style.title_seconds * self.style.fps)):
            yield picture

    def episode(self, take: Take) -> Iterator[np.ndarray]:
        """A checkpoint at play, beside where it stands on the learning curve."""
        for frame, total in self._paced(take, self.style.clip_seconds):
            self._canvas.fill(self.style.background)
            self._write(self._name, (60, 44), 44, self.style.quiet)
            self._write(take.title, (60, 92), 76, self.style.ink)
            self._picture(frame, (60, 190, 1160, 830))
            self._card((1270, 190, 590, 250))
            self._write("return so far", (1310, 222), 38, self.style.quiet)
            self._write(_number(total), (1310, 268), 130, self.style.accent)
            self._write(f"{_number(take.total)} in the end", (1310, 384), 38, self.style.quiet)
            self._curve((1270, 480, 590, 540), take.env_steps)
            yield self._taken()

    def versus(self, early: Take, late: Take) -> Iterator[np.ndarray]:
        """The same episode, before and after."""
        pairs = zip(
            self._paced(early, self.style.versus_seconds, hold=True),
            self._paced(late, self.style.versus_seconds, hold=True),
            strict=False,
        )
        for left, right in pairs:
            self._canvas.fill(self.style.background)
            self._write("early and late", (60, 44), 44, self.style.quiet)
            for take, (frame, total), x in ((early, left, 60), (late, right, 980)):
                self._write(take.title, (x, 108), 60, self.style.ink)
                self._picture(frame, (x, 190, 880, 720))
                self._write(f"return {_number(total)}", (x, 950), 60, self.style.accent)
            yield self._taken()

    def _paced(self, take: Take, seconds: float, *, hold: bool = False) -> Iterator[tuple[np.ndarray, float]]:
        """A take at the reel's pace, no longer than `seconds`; the last picture is held for half a second, or on."""
        length = len(take.frames) / take.fps
        shown = seconds if hold else min(seconds, max(length, 1.5))
        for i in range(round(shown * self.style.fps)):
            at = min(int(i / self.style.fps * take.fps), len(take.frames) - 1)
            yield take.frames[at], take.totals[at]

    def _curve(self, box: tuple[int, int, int, int], env_steps: int) -> None:
        x, y, wide, tall = box
        self._card(box)
        course = self._course
        style = self.style
        self._write(course.name, (x + 30, y + 24), 36, style.quiet)
        if len(course.x) < 2:
            return
        left = x + 40
        top = y + 90
        right = x + wide - 40
        bottom = y + tall - 60
        values = [*course.y, *([course.goal] if course.goal is not None else [])]
        low, high = float(min(values)), float(max(values))
        span = (high - low) or 1.0
        end = max(float(course.x[-1]), 1.0)

        def place(at: float, value: float) -> tuple[float, float]:
            share = min(1.0, at / end)
            return self._px(left + share * (right - left)), self._px(bottom - (value - low) / span * (bottom - top))

        if course.goal is not None:
            ends = place(0, course.goal), place(end, course.goal)
            self._pygame.draw.line(self._canvas, style.quiet, *ends, max(1, self._px(2)))
            self._write(
                "solved", (right - 84, bottom - (course.goal - low) / span * (bottom - top) + 8), 28, style.quiet
            )
        points = [place(float(a), float(b)) for a, b in zip(course.x, course.y, strict=True)]
        self._pygame.draw.lines(self._canvas, style.line, False, points, max(2, self._px(4)))
        here = place(env_steps, float(np.interp(env_steps, course.x, course.y)))
        self._pygame.draw.circle(self._canvas, style.accent, here, self._px(13))
        self._write(f"{_number(end)} env_steps", (right, bottom + 16), 30, style.quiet, "right")

    def _picture(self, frame: np.ndarray, box: tuple[int, int, int, int]) -> None:
        """The env's picture as large as fits, pixels kept sharp where they are few."""
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

    def _taken(self) -> np.ndarray:
        width, height = self.style.size
        raw = self._pygame.image.tobytes(self._canvas, "RGB")
        return np.frombuffer(raw, np.uint8).reshape(height, width, 3)


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 or float(value).is_integer() else f"{value:.4g}"
