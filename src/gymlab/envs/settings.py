"""The `env:` block of a recipe."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, PlainSerializer

from gymlab.core.clock import Count, Number
from gymlab.core.settings import ReadWhen, Settings
from gymlab.core.types import Json

EnvKwargs: TypeAlias = dict[str, Any]  # arguments of an env or a wrapper, by name: a recipe's or a Python caller's


class Part(Settings):
    """A wrapper or feature of a recipe: a name or a reference (`module:Name`, `./file.py:Name`) and its arguments."""

    name: str
    args: EnvKwargs = Field(default_factory=dict)
    value: Any = None
    """The bare argument of the short form, as in `frame_stack: 4`."""


def _parse_part(raw: Json | Part) -> Part:
    if isinstance(raw, Part):
        return raw
    if isinstance(raw, str):
        return Part(name=raw)
    if isinstance(raw, dict) and len(raw) == 1:
        ((name, value),) = raw.items()
        if isinstance(value, dict):
            return Part(name=str(name), args=value)
        return Part(name=str(name), value=value)
    raise ValueError(f"expected a name or {{name: arguments}}, got {raw!r}")


def _write_part(part: Part) -> Any:  # pydantic reads this annotation
    if part.args:
        return {part.name: dict(part.args)}
    return part.name if part.value is None else {part.name: part.value}


PartLike = Annotated[Part, BeforeValidator(_parse_part), PlainSerializer(_write_part)]


class EnvSettings(Settings):
    """Which environment, and how it is changed before the agent sees it."""

    id: str
    """A registered Gymnasium id, `module:Id-v0`, `module:Class` or `./file.py:Class`."""
    kwargs: EnvKwargs = Field(default_factory=dict)
    """Handed to gymnasium.make."""
    wrappers: tuple[PartLike, ...] = ()
    """Gymnasium wrappers, which always go around each env, and transforms outside them; both innermost first."""
    max_episode_steps: Annotated[Count, Field(ge=1)] | None = None
    """Time limit; default: the registered one, else 1000."""
    action_mask: bool = True
    """Use `info["action_mask"]` where the env gives one."""
    actions: tuple[str, ...] | None = None
    """Labels of the policy's discrete actions, or of the components of continuous ones."""
    observations: tuple[str, ...] | None = None
    """Labels of the components of the env's own observation."""
    links: tuple[str, ...] = ()
    """Pages about the env."""
    solved_at: Number | None = None
    """The mean return that counts as solved; default: the registered threshold."""
    on_error: Literal["stop", "restart"] = "stop"
    """When an env raises, hangs, dies or returns what its space does not allow: stop the run, or make that env anew in
    its next episode. 20 restarts within 1000 env steps stop the run all the same."""
    timeout: Annotated[Number, Field(gt=0, le=1e6), ReadWhen("host engine")] = 60.0
    """Seconds a step of all envs may take before an env counts as hanging; only env processes can be watched."""
