"""MinAtar's five games (extra `minatar`) such as `MinAtar/Breakout-v1`: boards of 10 x 10 cells.

The package's own Gymnasium class is not used: its sticky actions carry over from one episode into the next.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from gymlab.core.errors import UserError
from gymlab.envs.gymnasium_types import Info

GAMES = {
    "Asterix": "asterix",
    "Breakout": "breakout",
    "Freeway": "freeway",
    "Seaquest": "seaquest",
    "SpaceInvaders": "space_invaders",
}
EPISODE_STEPS = 5000  # the package has no limit, and a good player of Breakout has no end
_CELL = 16  # pixels of a cell when drawn
_COLOURS = np.array(
    [
        (0, 0, 0),
        (86, 180, 233),
        (240, 228, 66),
        (213, 94, 0),
        (0, 158, 115),
        (204, 121, 167),
        (230, 159, 0),
        (0, 114, 178),
        (255, 255, 255),
        (160, 160, 160),
        (120, 80, 200),
    ],
    np.uint8,
)


def register() -> None:
    """Make the games known to gymnasium.make: v1 with the actions that matter in each, v0 with all six."""
    for name, game in GAMES.items():
        for version, minimal in ((0, False), (1, True)):
            if f"MinAtar/{name}-v{version}" not in gymnasium.registry:
                gymnasium.register(
                    f"MinAtar/{name}-v{version}",
                    entry_point="gymlab.envs.games.minatar:MinAtarEnv",
                    kwargs={"game": game, "minimal_actions": minimal},
                    max_episode_steps=EPISODE_STEPS,
                )


class MinAtarEnv(gymnasium.Env[np.ndarray, np.int64]):
    """An episode depends on its seed and actions alone."""

    metadata: Info = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012 - as Gymnasium has it

    def __init__(
        self,
        game: str,
        minimal_actions: bool = True,
        sticky_action_prob: float = 0.1,
        difficulty_ramping: bool = True,
        render_mode: str | None = None,
    ) -> None:
        if not 0 <= sticky_action_prob < 1:
            raise UserError(f"sticky_action_prob={sticky_action_prob} must be at least 0 and below 1")
        self._game: Any = _environment()(game, sticky_action_prob, difficulty_ramping)
        self._actions = self._game.minimal_action_set() if minimal_actions else list(range(self._game.num_actions()))
        self.action_space = spaces.Discrete(len(self._actions))
        self.observation_space = spaces.Box(0, 1, tuple(self._game.state_shape()), bool)
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[np.ndarray, Info]:
        super().reset(seed=seed, options=options)
        self._game.seed(seed)
        self._game.last_action = 0
        self._game.reset()
        return self._game.state(), {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, Info]:
        reward, over = self._game.act(self._actions[action])
        return self._game.state(), float(reward), bool(over), False, {}

    def render(self) -> np.ndarray:
        """Each cell in the colour of its topmost channel."""
        state = self._game.state()
        top = (state * (np.arange(state.shape[-1]) + 1)).max(-1)
        return _COLOURS[top % len(_COLOURS)].repeat(_CELL, 0).repeat(_CELL, 1)


def _environment() -> Any:
    """MinAtar's own class. Its import complains about plotting packages that nothing here needs."""
    if importlib.util.find_spec("minatar") is None:
        raise UserError("MinAtar needs an extra package: pip install 'gymlab[minatar]'")
    root = logging.getLogger()
    handlers = root.handlers
    root.handlers = [logging.NullHandler()]
    try:
        package = importlib.import_module("minatar")
    finally:
        root.handlers = handlers
    return package.Environment
