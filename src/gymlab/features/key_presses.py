"""Key presses during training: pause, evaluate, checkpoint and stop; what else is pressed, others may hear of."""

from __future__ import annotations

import os
import re
import select
import sys
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from gymlab.training.events import (
    CheckpointRequested,
    Control,
    EvaluationRequested,
    Event,
    Feature,
    KeyPressed,
    Paused,
    PauseRequested,
    Stopping,
    Updated,
)

if sys.platform != "win32":
    import termios

LOOK_SECONDS = 0.05
_SEQUENCES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O?.)?")  # arrows, function keys, Alt and a letter
_LONGEST = 32  # what comes faster than anybody types was pasted, and meant for somebody else


class Keys(Feature):
    """Listens between updates, in the thread that trains. Nothing it does changes what is learnt."""

    name = "keys"

    def __init__(self, keyboard: Keyboard | None) -> None:
        self._keyboard = keyboard
        self._looked = 0.0
        self._paused = False

    def __enter__(self) -> Self:
        if self._keyboard is not None:
            self._keyboard.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._keyboard is not None:
            self._keyboard.restore()

    def __call__(self, event: Event, control: Control) -> None:
        if self._keyboard is None:
            return
        if isinstance(event, PauseRequested):
            self._paused = event.paused  # somebody else may have asked
        elif isinstance(event, Stopping):
            self._keyboard.restore()
            self._keyboard = None
        elif isinstance(event, Updated | Paused) and time.monotonic() - self._looked >= LOOK_SECONDS:
            self._looked = time.monotonic()
            for key in self._keyboard.pressed():
                self._act(key, event, control)

    def _act(self, key: str, event: Event, control: Control) -> None:
        if key == "p":
            self._paused = not self._paused
            control.emit(PauseRequested(event.clock, self._paused))
        control.emit(KeyPressed(event.clock, key))
        if key == "e":
            control.emit(EvaluationRequested(event.clock, "periodic"))
        elif key == "c":
            control.emit(CheckpointRequested(event.clock, "periodic"))
        elif key == "s":
            control.request_stop("stopped by a key press", unfinished=True)


class Keyboard:
    """Standard input, read key by key without echo as long as this process is the one in front."""

    def __init__(self, number: int) -> None:
        self._fd = number
        self._before: list[Any] | None = None  # how it was set when we began to listen
        self._closed = False

    def open(self) -> None:
        """Begin to listen, unless started in the background."""
        with suppress(OSError):
            if in_front(self._fd):
                self._listen()

    def _listen(self) -> bool:
        """Whether it had to be set anew: at first, and after somebody else had the terminal."""
        if sys.platform == "win32":
            return False
        settings = termios.tcgetattr(self._fd)
        if not settings[3] & (termios.ICANON | termios.ECHO):
            return False
        self._before = [*settings]
        settings[3] &= ~(termios.ICANON | termios.ECHO)
        settings[6] = [*settings[6]]
        settings[6][termios.VMIN], settings[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._fd, termios.TCSANOW, settings)
        return True

    def restore(self) -> None:
        if sys.platform == "win32" or self._before is None:
            return
        with suppress(OSError, termios.error):
            if in_front(self._fd):  # set from the background it would stop the process
                termios.tcsetattr(self._fd, termios.TCSANOW, self._before)
        self._before = None

    def pressed(self) -> list[str]:
        """The keys since last time; `continued` after the process was stopped or in the background."""
        if sys.platform == "win32" or self._closed:
            return []
        keys = []
        try:
            if not in_front(self._fd):
                return []
            keys += ["continued"] * self._listen()
            if select.select([self._fd], [], [], 0)[0]:
                data = os.read(self._fd, 1024)
                self._closed = not data
                keys += keys_in(data.decode(errors="replace"))
        except (OSError, termios.error):
            self._closed = True  # the terminal is gone
        return keys


def keys_in(text: str) -> list[str]:
    """The single keys of what was typed, without arrows, function keys and pasted texts."""
    typed = _SEQUENCES.sub("", text)
    return [] if len(typed) > _LONGEST or "\n" in typed else list(typed)


def in_front(number: int) -> bool:
    """Whether the terminal listens to this process, and not to a shell that put it into the background."""
    return os.tcgetpgrp(number) == os.getpgrp()


def make_keys(mode: str) -> Keys:
    """Keys for an output mode; deaf unless both ends are terminals and somebody can see what is done."""
    if mode != "people" or sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        return Keys(None)
    with suppress(OSError, ValueError, AttributeError, termios.error):  # closed, or no files at all
        number = sys.stdin.fileno()
        if os.isatty(number) and sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
            return Keys(Keyboard(number))
    return Keys(None)
