"""Env card: an env's actions and observations with labels and bounds, its time limit, optimum and links."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from gymlab.core.types import Json, Space
from gymlab.envs.make import make_env, time_limit
from gymlab.envs.registry import KNOWN_OPTIMA, resolve_id, spec_threshold
from gymlab.envs.settings import EnvSettings

_MOST_ROWS = 64  # components of an image are not listed one by one

Row = dict[str, Json]  # label, kind, and low and high where it has bounds


def env_card(settings: EnvSettings) -> dict[str, Json]:
    """The card as JSON data, of the env without wrappers: labels are of its own observations and actions."""
    env = make_env(settings.model_copy(update={"wrappers": ()}))
    try:
        observation = env.observation_space
        action = env.action_space
        modes = env.metadata.get("render_modes", [])
    finally:
        env.close()
    name = resolve_id(settings.id).id
    return {
        "id": name,
        "max_episode_steps": time_limit(settings),
        "solved_at": settings.solved_at if settings.solved_at is not None else spec_threshold(settings.id),
        "optimum": KNOWN_OPTIMA.get(name),
        "renders": bool(modes),
        "actions": _rows(_parts(action, actions=True), action, settings.actions),
        "observations": _rows(_parts(observation, actions=False), observation, settings.observations),
        "links": list(settings.links),
    }


def label_count(space: Space, *, actions: bool) -> int:
    """How many labels fit: one per discrete action, one per number, one per entry of a Tuple or Dict of choices."""
    return len(_parts(space, actions=actions))


def _rows(parts: list[Row], space: Space, labels: tuple[str, ...] | None) -> list[Row]:
    if len(parts) > _MOST_ROWS:
        return [{"label": "", "kind": str(space)}]
    named = labels if labels and len(labels) == len(parts) else [""] * len(parts)
    return [{"label": label, **part} for label, part in zip(named, parts, strict=True)]


def _parts(space: Space, *, actions: bool) -> list[Row]:
    if isinstance(space, spaces.Discrete):
        if actions:
            return [{"kind": f"choice {index}"} for index in range(int(space.start), int(space.start + space.n))]
        return [{"kind": "choice", "low": int(space.start), "high": int(space.start + space.n) - 1}]
    if isinstance(space, spaces.MultiDiscrete):
        return [{"kind": "choice", "low": 0, "high": int(n) - 1} for n in space.nvec.ravel()]
    if isinstance(space, spaces.MultiBinary):
        return [{"kind": "choice", "low": 0, "high": 1}] * int(np.prod(space.shape))
    if isinstance(space, spaces.Box):
        ends = zip(space.low.ravel().tolist(), space.high.ravel().tolist(), strict=True)
        return [{"kind": "number", "low": _finite(low), "high": _finite(high)} for low, high in ends]
    assert isinstance(space, spaces.Dict | spaces.Tuple), "`check_supported` lets no other through"
    inner = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
    return [row for part in inner for row in _parts(part, actions=False)]


def _finite(bound: float) -> float | None:
    """None where there is no bound; JSON knows no infinity."""
    return float(f"{bound:.7g}") if abs(bound) < 1e30 else None
