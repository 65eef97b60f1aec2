"""The best trial as a recipe: a variant in ./recipes with comments that say where it comes from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gymlab.campaigns.summary import estimate_seeds
from gymlab.campaigns.sweep.plan import SweepPlan
from gymlab.campaigns.sweep.store import Trial
from gymlab.campaigns.sweep.sweep_status import format_seed_count
from gymlab.core.errors import UserError
from gymlab.recipes.overrides import diff_recipes
from gymlab.recipes.resolve import amend, resolve
from gymlab.recipes.schema import Recipe, algorithm_names
from gymlab.recipes.write import dump_yaml, file_mapping, recipe_file_name
from gymlab.runs.files import write_text

_VARIANT = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")


def variant_name(plan: SweepPlan) -> str:
    """The sweep's name as a variant's."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", plan.name).strip("-")
    return name if name[:1].isalpha() else f"sweep-{name}"


def provenance(plan: SweepPlan, trials: Sequence[Trial], trial: Trial) -> list[str]:
    """Where the recipe of a trial comes from, for the comments of its file."""
    score = estimate_seeds(trial.scores) or "unknown"
    return [
        f"trial {trial.index} of {len(trials)} of sweep {plan.name} ({plan.method}, {plan.created[:10]}) "
        f"of {plan.title}",
        f"score: interquartile mean {score} (95 %), {format_seed_count(plan)}; chosen as the best, so not confirmed",
        f"changed: {' '.join(trial.overrides)}",
    ]


def write_variant(
    reference: str, overrides: Sequence[str], variant: str, provenance: Sequence[str], *, force: bool = False
) -> Path:
    """Write recipes/ENV-VARIANT.yaml: the recipe that `reference` names with these overrides.

    The variant extends that recipe if it resolves to the same settings; else every value is written out.
    """
    if not _VARIANT.fullmatch(variant) or variant in algorithm_names():
        raise UserError(
            f"--as {variant[:60]!r}: a variant's name, e.g. tuned: letters, digits, '_' and '-', no algorithm"
        )
    base = resolve(reference).recipe
    expected = amend(base, overrides)
    path = Path("recipes") / recipe_file_name(base.env.id).replace(".yaml", f"-{variant}.yaml")
    if path.exists() and not force:
        raise UserError(f"{path} exists already: choose another name with --as, or overwrite it with --force")
    path.parent.mkdir(exist_ok=True)
    for mapping in (_extending_variant(base, expected, variant), _complete_variant(expected, variant)):
        write_text(path, _dump(mapping, base, variant, provenance))
        if _resolves_to(path, variant, expected):
            return path
    path.unlink()
    raise UserError(f"{path}: the written recipe would load differently; write it by hand: {' '.join(overrides)}")


def _extending_variant(base: Recipe, expected: Recipe, variant: str) -> dict[str, Any]:
    changes: dict[str, Any] = {"extends": base.name.rpartition(":")[2]}
    for key, _, value in diff_recipes(base, expected):
        block, _, name = key.rpartition(".")
        target = changes
        for part in filter(None, block.split(".")):
            target = target.setdefault(part, {})
        target[name] = value
    return {"env": {"id": base.env.id}, "variants": {variant: changes}}


def _complete_variant(expected: Recipe, variant: str) -> dict[str, Any]:
    mapping = file_mapping(expected)
    (values,) = mapping["variants"].values()
    values.pop("name", None)
    return {"env": mapping["env"], "variants": {variant: values}}


def _resolves_to(path: Path, variant: str, expected: Recipe) -> bool:
    try:
        return not diff_recipes(resolve(f"{path}:{variant}").recipe, expected)
    except UserError:
        return False


def _dump(mapping: dict[str, Any], base: Recipe, variant: str, provenance: Sequence[str]) -> str:
    comments = [f"# gymlab train {base.env.id}:{variant}", *(f"# {line}" for line in provenance)]
    return "\n".join(comments) + "\n" + dump_yaml(mapping)
