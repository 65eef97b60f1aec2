"""Keyboard bindings of an env's actions, derived from the action names."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from gymnasium import spaces

from gymlab.core.errors import UserError
from gymlab.core.types import Space
from gymlab.envs.gymnasium_types import EnvValue

ARROWS = ("left", "right", "up", "down")
LETTERS = {"a": "left", "d": "right", "w": "up", "s": "down"}
_IDLE = {"noop", "nothing", "none", "idle", "stay", "coast", "no-op"}
_SYNONYMS = {
    "push left": "left",
    "push right": "right",
    "north": "up",
    "south": "down",
    "west": "left",
    "east": "right",
}
_SLOW_FPS = 5  # an env this slow is played turn by turn


class ActionKeys(NamedTuple):
    """Keys are named `left`, `right`, `up`, `down`, `space`, or by their letter or digit."""

    actions: dict[str, EnvValue]
    idle: EnvValue | None  # action while no key is pressed; None: the last action is repeated
    turns: bool  # every step waits for a key
    help: str


def keys_for(space: Space, labels: Sequence[str], fps: float) -> ActionKeys:
    """The keys of an action space; UserError if it cannot be played with keys."""
    if isinstance(space, spaces.Discrete):
        return _discrete(int(space.n), int(space.start), labels, fps)
    if isinstance(space, spaces.Box) and np.isfinite(space.low).all() and np.isfinite(space.high).all():
        return _continuous(space)
    raise UserError(f"action space {space} cannot be played with keys: use --policy random")


def _discrete(n: int, start: int, labels: Sequence[str], fps: float) -> ActionKeys:
    names = [_SYNONYMS.get(label.lower(), label.lower()) for label in labels] or [str(i) for i in range(n)]
    actions: dict[str, EnvValue] = {}
    bound: dict[int, list[str]] = {i: [] for i in range(n)}

    def bind(key: str, choice: int) -> None:
        if key not in actions:
            actions[key] = start + choice
            bound[choice].append(key)

    idle = next((i for i, name in enumerate(names) if _words(name) & _IDLE), None)
    for i, name in enumerate(names):
        if name in ARROWS:
            bind(name, i)
        elif name == "fire":
            bind("space", i)
    for i, name in enumerate(names):  # `left engine`, `move up`
        pointing = [word for word in ARROWS if word in _words(name)]
        if len(pointing) == 1 and not bound[i]:
            bind(pointing[0], i)
    for i in range(min(n, 10)):
        bind(str(i), i)
    _spare_arrows(actions, bound, n, idle, bind)
    held = None if idle is None else start + idle
    return ActionKeys(actions, held, idle is None and fps <= _SLOW_FPS, _help(bound, labels))


def _spare_arrows(
    actions: dict[str, EnvValue],
    bound: dict[int, list[str]],
    n: int,
    idle: int | None,
    bind: Callable[[str, int], None],
) -> None:
    """Two unnamed actions are left and right; one unbound action left over (a main engine, say) is up."""
    if n == 2 and "left" not in actions and "right" not in actions:
        bind("left", 0)
        bind("right", 1)
    unbound = [i for i in range(n) if i != idle and not [key for key in bound[i] if key in (*ARROWS, "space")]]
    if len(unbound) == 1 and "up" not in actions:
        bind("up", unbound[0])


def _continuous(space: spaces.Box) -> ActionKeys:
    middle = np.clip(np.zeros(space.shape), space.low, space.high).astype(space.dtype)
    actions: dict[str, EnvValue] = {}
    for place, (less, more) in enumerate((("left", "right"), ("down", "up"))):
        if place < middle.size:
            for key, bound in ((less, space.low), (more, space.high)):
                action = middle.copy()
                action.flat[place] = bound.flat[place]
                actions[key] = action
    return ActionKeys(actions, middle, False, "arrows: the ends of the range, no key: the middle")


def _words(name: str) -> set[str]:
    return set(re.split(r"[^a-z-]+", name))


def _help(bound: dict[int, list[str]], labels: Sequence[str]) -> str:
    signs = {"left": "←", "right": "→", "up": "↑", "down": "↓"}
    parts = []
    for i, keys in bound.items():
        if keys:
            name = labels[i] if i < len(labels) else str(i)
            parts.append(f"{'/'.join(signs.get(key, key) for key in keys)} {name}")
    return " · ".join(parts)


def arrow_of(key: str) -> str:
    """The arrow that a letter of WASD stands for; other keys as they are."""
    return LETTERS.get(key, key)
