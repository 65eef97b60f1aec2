"""Gymnasium's open types under one name each: what an env, a wrapper and a space exchange."""

from __future__ import annotations

from typing import Any, SupportsFloat, TypeAlias

import gymnasium
import numpy as np

# An observation or an action, as its space has it.
EnvValue: TypeAlias = "np.ndarray | np.generic | int | float | str | tuple[EnvValue, ...] | dict[str, EnvValue]"
Info: TypeAlias = dict[str, Any]  # each env gives other keys; also the `options` of a reset
Env: TypeAlias = gymnasium.Env[Any, Any]  # an env known by its spaces only: `make` gives one of any type
EnvWrapper: TypeAlias = gymnasium.Wrapper[Any, Any, Any, Any]  # around such an env
ResetResult: TypeAlias = tuple[EnvValue, Info]
StepResult: TypeAlias = tuple[EnvValue, SupportsFloat, bool, bool, Info]
