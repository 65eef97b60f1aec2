"""`randomize: {gravity: [-11, -8], wind_power: [0, 15]}`: other physics in every episode, in evaluation too."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from gymlab.core.errors import UserError
from gymlab.core.rng import stream_id
from gymlab.envs.games.parameters import check_parameters, set_parameters

INFO = "randomized"


class Randomize(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Draws each parameter evenly from its range, from the episode's own seed; `info["randomized"]` of every reset.

    The env's own draws are not touched: with ranges of one value an episode is what it would have been.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], **ranges: Any) -> None:
        RecordConstructorArgs.__init__(self, **ranges)
        gymnasium.Wrapper.__init__(self, env)
        if not ranges:
            raise ValueError("give at least one range, such as gravity: [-11, -8]")
        self._ranges = {name: _range(name, bounds) for name, bounds in ranges.items()}
        try:
            check_parameters(env.unwrapped, list(ranges))
        except UserError as error:
            raise ValueError(str(error)) from error

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        origin = seed if seed is not None else int(self.np_random.integers(2**31))
        rng = np.random.default_rng([origin, stream_id("randomize")])
        values = {name: float(rng.uniform(low, high)) for name, (low, high) in self._ranges.items()}
        set_parameters(self.unwrapped, values)
        obs, info = self.env.reset(seed=seed, options=options)
        return obs, {**info, INFO: values}


def _range(name: str, bounds: Any) -> tuple[float, float]:
    numbers = bounds if isinstance(bounds, list | tuple) else [bounds, bounds]
    right = len(numbers) == 2 and all(isinstance(end, int | float) and np.isfinite(end) for end in numbers)
    if not right or numbers[0] > numbers[1]:
        raise ValueError(f"{name}={bounds!r} must be [low, high]")
    return float(numbers[0]), float(numbers[1])
