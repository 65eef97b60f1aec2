"""Caption overlay below a film's pictures: step, return, value and the action's distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gymlab.core.types import Array, Space

Colour = tuple[int, int, int]


@dataclass(frozen=True)
class VideoOverlayStyle:
    """How a film is captioned. `shown` leaves parts out."""

    font_size: int = 22
    margin: int = 12
    bars: int = 6  # at most so many actions
    shown: tuple[str, ...] = ("step", "return", "value", "title", "actions")
    background: Colour = (24, 27, 33)
    ink: Colour = (238, 240, 243)
    quiet: Colour = (146, 154, 166)
    track: Colour = (52, 58, 68)
    bar: Colour = (86, 156, 214)
    chosen: Colour = (247, 183, 49)


class Bar(NamedTuple):
    """An action: how likely it is (0 to 1) or, where it is a number, where it lies in its range."""

    label: str
    share: float
    chosen: bool = False
    centred: bool = False  # drawn from the middle


class Caption(NamedTuple):
    step: int
    total: float  # return so far
    value: float
    bars: Sequence[Bar] = ()
    title: str = ""


def bars_of(
    space: Space, action: Array, probabilities: Sequence[float], labels: Sequence[str], label: str
) -> list[Bar]:
    """The bars of a decision, whatever the action space."""
    if probabilities:
        names = [labels[i] if i < len(labels) else str(i) for i in range(len(probabilities))]
        return [Bar(name, share, name == label) for name, share in zip(names, probabilities, strict=True)]
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if low is None or high is None or action.dtype.kind != "f":
        return [Bar(label, 1.0, True)]
    flat = zip(action.ravel(), np.ravel(low), np.ravel(high), strict=True)
    called = labels if len(labels) == action.size else ["action"] if action.size == 1 else range(action.size)
    return [
        Bar(f"{name} {x:+.2f}", _place(float(x), float(a), float(b)), True, True)
        for name, (x, a, b) in zip(called, flat, strict=True)
    ]


def _place(x: float, low: float, high: float) -> float:
    if not (math.isfinite(low) and math.isfinite(high)):
        return 0.5 + math.tanh(x) / 2
    return min(1.0, max(0.0, (x - low) / (high - low))) if high > low else 0.5


def most_relevant(bars: Sequence[Bar], most: int) -> list[Bar]:
    """As many as fit, in their own order: the chosen one and the likeliest."""
    if len(bars) <= most:
        return list(bars)
    ranked = sorted(range(len(bars)), key=lambda i: (not bars[i].chosen, -bars[i].share))
    return [bars[i] for i in sorted(ranked[:most])]


class Overlay:
    """Draws captions of one width. Needs pygame, but no screen."""

    def __init__(self, width: int, style: VideoOverlayStyle | None = None) -> None:
        import pygame

        pygame.font.init()
        self._pygame = pygame
        self.style = style or VideoOverlayStyle()
        self.width = width
        self._font = pygame.font.Font(None, self.style.font_size)
        self._small = pygame.font.Font(None, max(12, round(self.style.font_size * 0.82)))
        line = self._font.get_linesize()
        self._gap = self.style.margin // 2
        self._bar_top = self.style.margin + line + self._gap
        bottom = self._bar_top + self._small.get_linesize() + 10 + self.style.margin
        height = bottom if "actions" in self.style.shown else self.style.margin * 2 + line
        self.height = (height + 1) // 2 * 2
        self._surface = pygame.Surface((width, self.height))

    def below(self, picture: np.ndarray, caption: Caption) -> np.ndarray:
        """The picture with its caption, as one."""
        return np.concatenate([picture, self.strip(caption)])

    def strip(self, caption: Caption) -> np.ndarray:
        style = self.style
        self._surface.fill(style.background)
        x = style.margin
        parts = {
            "step": f"{caption.step}",
            "return": _format_number(caption.total),
            "value": _format_number(caption.value),
        }
        for name, text in parts.items():
            if name in style.shown and text:
                x = self._text(name, x, style.margin, style.quiet) + 5
                x = self._text(text, x, style.margin, style.ink) + 18
        if "title" in style.shown and caption.title:
            self._right(caption.title, x)
        if "actions" in style.shown:
            self._bars(most_relevant(caption.bars, self._room(caption.bars)))
        raw = self._pygame.image.tobytes(self._surface, "RGB")
        return np.frombuffer(raw, np.uint8).reshape(self.height, self.width, 3)

    def _room(self, bars: Sequence[Bar]) -> int:
        """How many bars fit beside each other with their labels readable."""
        widest = max((self._small.size(bar.label)[0] for bar in bars), default=1)
        return max(1, min(self.style.bars, (self.width - self.style.margin) // (widest + self.style.margin)))

    def _bars(self, bars: Sequence[Bar]) -> None:
        style = self.style
        top = self._bar_top
        if not bars:
            return
        each = min(180, (self.width - style.margin) // len(bars))
        height = 8
        label_height = self._small.get_linesize()
        for i, bar in enumerate(bars):
            left = style.margin + i * each
            wide = each - style.margin
            colour = style.chosen if bar.chosen else style.bar
            ink = style.ink if bar.chosen else style.quiet
            self._surface.blit(self._small.render(bar.label, True, ink), (left, top))
            box = (left, top + label_height + 1, wide, height)
            self._pygame.draw.rect(self._surface, style.track, box, border_radius=3)
            start, end = (min(0.5, bar.share), max(0.5, bar.share)) if bar.centred else (0.0, bar.share)
            filled = max(2 if bar.centred else 0, round((end - start) * wide))
            if filled:
                place = (left + round(start * wide), box[1], filled, height)
                self._pygame.draw.rect(self._surface, colour, place, border_radius=3)

    def _text(self, text: str, x: int, y: int, colour: Colour) -> int:
        drawn = self._font.render(text, True, colour)
        self._surface.blit(drawn, (x, y))
        return x + drawn.get_width()

    def _right(self, text: str, after: int) -> None:
        """Flush right, where there is room for it."""
        drawn = self._font.render(text, True, self.style.quiet)
        x = self.width - self.style.margin - drawn.get_width()
        if x >= after:
            self._surface.blit(drawn, (x, self.style.margin))


def _format_number(value: float) -> str:
    if not math.isfinite(value):
        return ""
    return f"{value:.0f}" if float(value).is_integer() and abs(value) < 1e6 else f"{value:.4g}"
