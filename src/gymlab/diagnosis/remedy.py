"""`gymlab diagnose --apply`: writes a run's settings with a finding's overrides to `./recipes/advice/ENV.yaml`.

A folder below `./recipes` is looked into only when it is named, so what a bare `gymlab train ENV` runs stays the same.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from gymlab.core.errors import GymlabError, UserError
from gymlab.core.types import Json, JsonObject
from gymlab.recipes.inherit import read_recipe_file
from gymlab.recipes.overrides import Change, diff_recipes
from gymlab.recipes.problems import Problems
from gymlab.recipes.resolve import amend, resolve, variants_of
from gymlab.recipes.schema import Recipe
from gymlab.recipes.write import dump_yaml, recipe_file_name, variant_mapping
from gymlab.runs import files

FOLDER = Path("recipes") / "advice"
_HEAD = """\
# Written by `gymlab diagnose --apply`: each variant follows the advice on one run. Yours to edit.
env:
  id: {env}
variants:
"""


class Remedy(NamedTuple):
    """A variant that was written."""

    path: Path
    variant: str
    changes: list[Change]  # against the run: path, old, new

    @property
    def reference(self) -> str:
        return f"{self.path.as_posix()}:{self.variant}"


def write_remedy(recipe: Recipe, overrides: JsonObject, provenance: str) -> Remedy:
    """Add a variant of `recipe` with these overrides to the file; its other contents stay unchanged."""
    amended = amend(recipe, [f"{key}={_text(value)}" for key, value in overrides.items()])
    changes = diff_recipes(recipe, amended)
    if not changes:
        raise UserError("the advice changes nothing: the run has these values already")
    path = FOLDER / recipe_file_name(recipe.env.id)
    before = path.read_text(encoding="utf-8") if path.exists() else _HEAD.format(env=_text(recipe.env.id))
    own = _own_variants(path)
    label = recipe.name.rpartition(":")[2]
    name = _free(label, [*own, *variants_of(recipe.env.id)])
    parent = _parent(f"{path}:{label}" if label in own else f"{recipe.env.id}:{label}")
    path.parent.mkdir(parents=True, exist_ok=True)
    bodies = [variant_mapping(amended)]
    if parent is not None:
        bodies.insert(0, {"extends": label, **_nested(diff_recipes(parent, amended), amended.algorithm.name)})
    for body in bodies:
        text = f"{before.rstrip()}\n{_block(name, body, provenance)}"
        if _resolves_to(text, name, amended, path):
            files.write_text(path, text)
            return Remedy(path, name, changes)
    raise UserError(f"the advice could not be written as a variant of {recipe.name}: give it on the command line")


def _own_variants(path: Path) -> list[str]:
    if not path.exists():
        return []
    problems = Problems()
    found = list(read_recipe_file(path, problems).variants)
    problems.raise_any()  # never add to a file with errors
    return found


def _free(label: str, taken: list[str]) -> str:
    """`ppo` and `ppo-fix1` become the first free of `ppo-fix1`, `ppo-fix2`, …"""
    stem = re.sub(r"-fix\d+$", "", label) or "run"
    number = 1
    while f"{stem}-fix{number}" in taken:
        number += 1
    return f"{stem}-fix{number}"


def _parent(reference: str) -> Recipe | None:
    try:
        return resolve(reference).recipe
    except GymlabError:  # the run came from elsewhere: all its values are written
        return None


def _resolves_to(text: str, variant: str, amended: Recipe, path: Path) -> bool:
    """Whether the variant in `text` resolves to the amended recipe, as `gymlab train` would read it."""
    draft = path.with_name(f"draft-{path.name}")
    try:
        draft.write_text(text, encoding="utf-8")
        return not diff_recipes(amended, resolve(f"{draft}:{variant}").recipe)
    except GymlabError:
        return False
    finally:
        draft.unlink(missing_ok=True)


def _nested(changes: list[Change], algorithm: str) -> dict[str, Json]:
    tree: dict[str, Json] = {}
    for path, _, value in changes:
        block = algorithm if path.startswith(f"{algorithm}.") else path.partition(".")[0]
        inner: dict[str, Any] = tree
        keys = [block, *filter(None, [path.removeprefix(block).removeprefix(".")])]
        if block == "env" and keys[1].startswith("kwargs."):
            keys = ["env", "kwargs", keys[1].removeprefix("kwargs.")]
        for key in keys[:-1]:
            inner = inner.setdefault(key, {})
        inner[keys[-1]] = value
    return tree


def _block(name: str, body: dict[str, Json], provenance: str) -> str:
    lines = [*(f"# {line}" for line in provenance.splitlines()), *dump_yaml({name: body}).splitlines()]
    return "".join(f"  {line}".rstrip() + "\n" for line in lines)


def _text(value: object) -> str:
    """A value as it is written in YAML."""
    return dump_yaml({"v": value}).removeprefix("v:").strip() if not isinstance(value, str) else value
