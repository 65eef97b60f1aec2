"""Key presses during training: pause, evaluate, checkpoint and stop; every key is sent on as a `KeyPressed` event."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from gymlab.terminal.keyboard import CONTINUED, Keyboard, terminal_fd
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

POLL_SECONDS = 0.05
_LONGEST_TYPED = 32  # characters between two polls; more at once was pasted


class KeyPresses(Feature):
    """Polls the keyboard between updates, in the training thread. No key changes what is learnt."""

    name = "keys"

    def __init__(self, keyboard: Keyboard | None) -> None:
        self._keyboard = keyboard
        self._polled_at = 0.0
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
            self._paused = event.paused  # another feature may have paused the run
        elif isinstance(event, Stopping):
            self._keyboard.restore()
            self._keyboard = None
        elif isinstance(event, Updated | Paused) and time.monotonic() - self._polled_at >= POLL_SECONDS:
            self._polled_at = time.monotonic()
            for key in typed_keys(self._keyboard.read()):
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


def typed_keys(keys: Sequence[str]) -> list[str]:
    """Single characters, without arrows; none of a pasted text, which was meant for another program."""
    typed = [key for key in keys if len(key) == 1]
    pasted = len(typed) > _LONGEST_TYPED or "enter" in keys
    return [key for key in keys if key == CONTINUED or (len(key) == 1 and not pasted)]


def make_key_presses(output: str) -> KeyPresses:
    """The feature for an output mode; disabled unless stdin and stdout are terminals and output is for people."""
    if output != "people" or sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        return KeyPresses(None)
    fd = terminal_fd(sys.stdin)
    if fd is not None and terminal_fd(sys.stdout) is not None and os.environ.get("TERM") != "dumb":
        return KeyPresses(Keyboard(fd))
    return KeyPresses(None)
