"""One emulator of stable-retro, alone in its process: plays frames when told, and ends when its parent does.

Started by `games.retro` as `python -m gymlab.envs.games.retro_process GAME STATE`. It reads JSON lines and answers each
with one, behind which the bytes of the screen follow.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import IO, Any


def main() -> None:
    """Serve until the line closes."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the emulator prints must not end up among the answers
    game, state = sys.argv[1:]
    try:
        env = _open(game, state)
    except Exception as error:
        _tell(answers, {"error": f"{type(error).__name__}: {error}"}, b"")
        return
    _tell(answers, {"shape": env.observation_space.shape, "buttons": env.buttons}, b"")
    for line in sys.stdin:
        asked: dict[str, Any] = json.loads(line)
        if "masks" in asked:
            _play(answers, env, asked["masks"])
        else:
            _tell(answers, {}, env.reset()[0].tobytes())


def _open(game: str, state: str) -> Any:
    retro: Any = importlib.import_module("stable_retro")
    given = {"state": state} if state else {}
    return retro.make(game, render_mode="rgb_array", use_restricted_actions=retro.Actions.ALL, **given)


def _play(answers: IO[bytes], env: Any, masks: list[list[int]]) -> None:
    """One frame per mask of buttons, until the game is over."""
    paid = 0.0
    over = False
    screen: Any = None
    info: dict[str, Any] = {}
    for mask in masks:
        screen, reward, over, _, info = env.step(mask)
        paid += float(reward)
        if over:
            break
    told = {key: value for key, value in info.items() if isinstance(value, int | float)}
    _tell(answers, {"reward": paid, "over": bool(over), "info": told}, screen.tobytes())


def _tell(answers: IO[bytes], head: dict[str, Any], screen: bytes) -> None:
    answers.write(json.dumps({**head, "bytes": len(screen)}).encode() + b"\n" + screen)
    answers.flush()


if __name__ == "__main__":
    main()
