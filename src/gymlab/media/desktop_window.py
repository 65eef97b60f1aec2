"""A window on the desktop for playing."""

from __future__ import annotations

import time
from typing import Any, Self

import numpy as np

from gymlab.media.camera import enlarged

_CAPTION_LINE = 22


class WindowScreen:
    """Shows pictures and captions in a window, and reads its keys."""

    def __init__(self, title: str) -> None:
        import pygame

        self._pygame = pygame
        self._title = title
        self._screen: Any = None
        self._closed = False

    def __enter__(self) -> Self:
        self._pygame.display.init()
        self._pygame.font.init()
        self._font = self._pygame.font.Font(None, 20)
        return self

    def __exit__(self, *_: object) -> None:
        self._pygame.display.quit()

    def show(self, picture: np.ndarray | str, caption: list[str], *, now: bool = False) -> None:
        del now
        pygame = self._pygame
        lines = [*(picture.splitlines() if isinstance(picture, str) else []), *caption]
        image = enlarged(np.zeros((8, 480, 3), np.uint8) if isinstance(picture, str) else picture)
        height, width = image.shape[:2]
        size = (width, height + _CAPTION_LINE * len(lines) + 8)
        if self._screen is None or self._screen.get_size() != size:
            self._screen = pygame.display.set_mode(size)
            pygame.display.set_caption(self._title)
        screen = self._screen
        screen.fill((24, 27, 33))
        screen.blit(pygame.image.frombuffer(np.ascontiguousarray(image).tobytes(), (width, height), "RGB"), (0, 0))
        for i, line in enumerate(lines):
            screen.blit(self._font.render(line, True, (238, 240, 243)), (10, height + 6 + i * _CAPTION_LINE))
        pygame.display.flip()

    def keys(self, seconds: float) -> list[str]:
        """Keys pressed or held down, waiting at most so long; closing the window is `q`."""
        pygame = self._pygame
        found: list[str] = []
        deadline = time.monotonic() + seconds
        while not found:
            for event in pygame.event.get():
                if event.type == pygame.QUIT:
                    found.append("q")
                elif event.type == pygame.KEYDOWN:
                    found.append(pygame.key.name(event.key).replace("return", "enter"))
            left = deadline - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(0.005, left))
        held = pygame.key.get_pressed()
        names = {pygame.K_LEFT: "left", pygame.K_RIGHT: "right", pygame.K_UP: "up", pygame.K_DOWN: "down"}
        return found or [name for key, name in names.items() if held[key]]
