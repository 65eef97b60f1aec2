"""Worker process of one stable-retro emulator: plays the frames it is sent and exits with its parent.

Started by `games.retro` as `python -m gymlab.envs.games.retro_worker GAME STATE`. Each request is a line of JSON, each
reply a line of JSON followed by the bytes of the screen.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

import numpy as np

from gymlab.core.types import Json
from gymlab.envs.gymnasium_types import Info
from gymlab.process.parent_watch import ParentPipe


def main() -> None:
    """Serve requests until stdin is closed."""
    parent = ParentPipe()
    game, state = sys.argv[1:]
    try:
        env = _make(game, state)
    except Exception as error:  # the parent reports whatever the package raises as the user's mistake
        _reply(parent, {"error": f"{type(error).__name__}: {error}"})
        return
    _reply(parent, {"shape": env.observation_space.shape, "buttons": env.buttons})
    while (line := parent.read_line()) is not None:
        request: dict[str, list[list[int]]] = json.loads(line)
        if "masks" in request:
            _play(parent, env, request["masks"])
        else:
            _reply(parent, {}, env.reset()[0].tobytes())


def _make(game: str, state: str) -> Any:
    retro: Any = importlib.import_module("stable_retro")
    options = {"state": state} if state else {}
    return retro.make(game, render_mode="rgb_array", use_restricted_actions=retro.Actions.ALL, **options)


def _play(parent: ParentPipe, env: Any, masks: list[list[int]]) -> None:
    """One frame per button mask, until the game is over."""
    total = 0.0
    over = False
    screen = np.zeros(0, np.uint8)
    info: Info = {}
    for mask in masks:
        screen, reward, over, _, info = env.step(mask)
        total += float(reward)
        if over:
            break
    numbers = {key: value for key, value in info.items() if isinstance(value, int | float)}
    _reply(parent, {"reward": total, "over": bool(over), "info": numbers}, screen.tobytes())


def _reply(parent: ParentPipe, head: dict[str, Json], screen: bytes = b"") -> None:
    parent.send(json.dumps({**head, "bytes": len(screen)}), screen)


if __name__ == "__main__":
    main()
