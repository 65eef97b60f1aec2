"""`randomize: {gravity: [-11, -8], wind_power: [0, 15]}`: other physics in every episode, in evaluation too."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from gymlab.core.errors import UserError
from gymlab.core.rng import stream_id
from gymlab.core.types import Json
from gymlab.envs.games.parameters import check_parameters, set_parameters
from gymlab.envs.gymnasium_types import Env, EnvWrapper, Info, ResetResult
from gymlab.envs.settings import EnvKwargs

INFO = "randomized"


class Randomize(EnvWrapper, RecordConstructorArgs):
    """Draws each parameter evenly from its range, from the episode's own seed; `info["randomized"]` of every reset.

    The env's own draws are not touched: with ranges of one value an episode is what it would have been.
    """

    leaves_bounds = True  # the space and the rewards known of the env are those of its usual physics
    keeps_returns = False

    def __init__(self, env: Env, **ranges: Json) -> None:
        arguments: EnvKwargs = dict(ranges)
        RecordConstructorArgs.__init__(self, **arguments)
        gymnasium.Wrapper.__init__(self, env)
        if not ranges:
            raise ValueError("give at least one range, such as gravity: [-11, -8]")
        self._ranges = {name: _range(name, bounds) for name, bounds in ranges.items()}
        try:
            check_parameters(env.unwrapped, list(ranges))
        except UserError as error:
            raise ValueError(str(error)) from error

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> ResetResult:
        origin = seed if seed is not None else int(self.np_random.integers(2**31))
        rng = np.random.default_rng([origin, stream_id("randomize")])
        values = {name: float(rng.uniform(low, high)) for name, (low, high) in self._ranges.items()}
        set_parameters(self.unwrapped, values)
        obs, info = self.env.reset(seed=seed, options=options)
        return obs, {**info, INFO: values}


def _range(name: str, bounds: Json) -> tuple[float, float]:
    ends = list(bounds) if isinstance(bounds, list | tuple) else [bounds, bounds]
    numbers = [float(end) for end in ends if isinstance(end, int | float) and np.isfinite(end)]
    if len(ends) != 2 or len(numbers) != 2 or numbers[0] > numbers[1]:
        raise ValueError(f"{name}={bounds!r} must be [low, high]")
    return numbers[0], numbers[1]
