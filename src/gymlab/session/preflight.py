"""Whether a recipe's parallel envs are copies of each other: found out once, then remembered in the cache folder.

An Atari game takes a tenth of a second to load, which every start of every run would wait for.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from gymlab.envs.check import ignores_seed
from gymlab.envs.registry import find_spec
from gymlab.envs.wrappers import WRAPPERS
from gymlab.recipes.project_settings import cache_folder
from gymlab.recipes.schema import Recipe
from gymlab.runs.files import sha256, write_text
from gymlab.runs.manifest import versions

_VERSIONED = ("gymnasium", "ale_py", "gymlab")  # an env of theirs is the same as long as their versions are


def are_copies(recipe: Recipe) -> bool:
    """Whether envs with different seeds are the same to the last bit."""
    path = _remembered(recipe)
    if path is not None:
        with suppress(OSError):
            told = path.read_text(encoding="utf-8")
            if told in ("0", "1"):
                return told == "1"
    found = ignores_seed(recipe.env, recipe.imports)
    if path is not None:
        with suppress(OSError):  # a cache that cannot be written only costs time
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, str(int(found)), durable=False)
    return found


def _remembered(recipe: Recipe) -> Path | None:
    """Where the verdict is kept; None where the code of the env or of a wrapper may change without a version."""
    env = recipe.env
    spec = find_spec(env.id)
    entry = "" if spec is None or not isinstance(spec.entry_point, str) else spec.entry_point
    if entry.split(".")[0] not in _VERSIONED or any(part.name not in WRAPPERS for part in env.wrappers):
        return None
    facts = env.model_dump(mode="json", include={"id", "kwargs", "wrappers", "max_episode_steps"})
    return cache_folder() / "copies" / sha256(json.dumps([facts, versions()], sort_keys=True).encode())[:32]
