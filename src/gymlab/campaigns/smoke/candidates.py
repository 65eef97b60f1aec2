"""Selection of recipes to check: those that ship and the user's own, by name, pattern or family."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from gymlab.core.errors import UserError, suggestion
from gymlab.envs.registry import env_family
from gymlab.recipes.inherit import read_recipe_file
from gymlab.recipes.problems import Problems
from gymlab.recipes.resolve import find_target, packaged_files, user_files


class Candidate(NamedTuple):
    """A recipe as `gymlab train` takes it, and the kind of env it is for."""

    reference: str
    family: str


def choose_candidates(patterns: Sequence[str] = (), families: Sequence[str] = ()) -> list[Candidate]:
    """The recipes that match any of the patterns (all, where there is none) and are of one of the families, if any."""
    known = candidates()
    _check_families(families, known)
    chosen = known if not patterns else [found for pattern in patterns for found in _matching(pattern, known)]
    return [found for found in dict.fromkeys(chosen) if not families or found.family in families]


def candidates() -> list[Candidate]:
    """Every variant that ships, then every one of the user's, which replace those of the same name."""
    own = [found for path in user_files() for found in _variants(path, packaged=False)]
    replaced = {(env, name) for env, name, _ in own}
    ours = [found for path in packaged_files() for found in _variants(path, packaged=True)]
    remaining = [found for found in ours if found[:2] not in replaced]
    return [Candidate(reference, env_family(env)) for env, _, reference in (*remaining, *own)]


def _variants(path: Path, *, packaged: bool) -> list[tuple[str, str, str]]:
    """(env, variant, reference) of each variant; a file that cannot be read is a candidate, whose check says why."""
    try:
        file = read_recipe_file(path, Problems())
    except UserError:
        return [("", "", str(path))]
    named = file.env.get("id")
    env = named.value if named is not None and isinstance(named.value, str) else ""
    place = env if packaged else str(path)
    return [(env, name, f"{place}:{name}") for name in file.variants] or [(env, "", str(path))]


def _matching(pattern: str, known: Sequence[Candidate]) -> list[Candidate]:
    found = [
        candidate
        for candidate in known
        if pattern in (candidate.reference, candidate.reference.rpartition(":")[0])
        or fnmatchcase(candidate.reference, pattern)
    ]
    if found:
        return found
    if any(sign in pattern for sign in "*?["):
        names = [candidate.reference for candidate in known]
        raise UserError(f"no recipe is called like '{pattern}': {suggestion(pattern.strip('*?[]'), names)}")
    return [Candidate(pattern, env_family(find_target(pattern).env))]  # an env without a recipe, or an error


def _check_families(families: Sequence[str], known: Sequence[Candidate]) -> None:
    names = {candidate.family for candidate in known}
    for name in families:
        if name not in names:
            raise UserError(f"--family: no recipe is of the family '{name}': {suggestion(name, names)}")
