"""How an env that a user's script has registered gets known in another process."""

from __future__ import annotations

import dataclasses
from typing import Any

from gymnasium.envs.registration import EnvSpec, registry

from gymlab.core.errors import UserError
from gymlab.envs.catalogue import resolve_id


def registration(text: str) -> str | None:
    """The env's registration as JSON, for `register`; None for a reference, which the other process imports."""
    spec = registry.get(resolve_id(text).id)
    if spec is None:
        return None
    entry: Any = spec.entry_point
    if callable(entry):
        module, name = entry.__module__, getattr(entry, "__qualname__", "<")
        if module == "__main__" or "<" in name:
            raise UserError(f"{text} is registered by a script that other processes cannot import: move it to a module")
        entry = f"{module}:{name}"
    try:
        return dataclasses.replace(spec, entry_point=entry, vector_entry_point=None).to_json()
    except (TypeError, ValueError) as error:
        raise UserError(f"the registration of {text} cannot be sent to another process: {error}") from error


def register(told: str | None) -> None:
    """Make what `registration` told known here, unless something of that name is already."""
    if told is not None:
        spec = EnvSpec.from_json(told)
        registry.setdefault(spec.id, spec)
