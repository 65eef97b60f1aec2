"""The best trial as a recipe: a variant in ./recipes that says where it comes from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gymlab.core.errors import UserError
from gymlab.recipes.overrides import diff_recipes
from gymlab.recipes.resolve import amend, resolve
from gymlab.recipes.schema import Recipe, algorithm_names
from gymlab.recipes.write import dump_yaml, file_mapping, recipe_file_name
from gymlab.runs.files import write_text

_VARIANT = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")


def write_variant(
    reference: str, overrides: Sequence[str], variant: str, provenance: Sequence[str], *, force: bool = False
) -> Path:
    """Write recipes/ENV-VARIANT.yaml: the recipe that `reference` names with these overrides.

    It extends that recipe where the result is the same; else every value is written out.
    """
    if not _VARIANT.fullmatch(variant) or variant in algorithm_names():
        raise UserError(
            f"--as {variant[:60]!r}: a variant's name, e.g. tuned: letters, digits, '_' and '-', no algorithm"
        )
    base = resolve(reference).recipe
    wanted = amend(base, overrides)
    path = Path("recipes") / recipe_file_name(base.env.id).replace(".yaml", f"-{variant}.yaml")
    if path.exists() and not force:
        raise UserError(f"{path} exists already: choose another name with --as, or overwrite it with --force")
    path.parent.mkdir(exist_ok=True)
    for mapping in (_extension(base, wanted, variant), _whole(wanted, variant)):
        write_text(path, _text(mapping, base, variant, provenance))
        if _gives(path, variant, wanted):
            return path
    path.unlink()
    raise UserError(f"{path}: the recipe would not load as it was; write it by hand: {' '.join(overrides)}")


def _extension(base: Recipe, wanted: Recipe, variant: str) -> dict[str, Any]:
    changes: dict[str, Any] = {"extends": base.name.rpartition(":")[2]}
    for key, _, value in diff_recipes(base, wanted):
        block, _, name = key.rpartition(".")
        target = changes
        for part in filter(None, block.split(".")):
            target = target.setdefault(part, {})
        target[name] = value
    return {"env": {"id": base.env.id}, "variants": {variant: changes}}


def _whole(wanted: Recipe, variant: str) -> dict[str, Any]:
    mapping = file_mapping(wanted)
    (values,) = mapping["variants"].values()
    values.pop("name", None)
    return {"env": mapping["env"], "variants": {variant: values}}


def _gives(path: Path, variant: str, wanted: Recipe) -> bool:
    try:
        return not diff_recipes(resolve(f"{path}:{variant}").recipe, wanted)
    except UserError:
        return False


def _text(mapping: dict[str, Any], base: Recipe, variant: str, provenance: Sequence[str]) -> str:
    told = [f"# gymlab train {base.env.id}:{variant}", *(f"# {line}" for line in provenance)]
    return "\n".join(told) + "\n" + dump_yaml(mapping)
