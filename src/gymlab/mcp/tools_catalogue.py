"""Tools about what there is: environments, recipes, and what names mean."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field

from gymlab.core.errors import UserError, suggestion
from gymlab.mcp.answers import Env, Envs, Meaning, Meanings, RecipeName, Recipes, RecipeShown, Validity
from gymlab.mcp.arguments import Limit, Offset, Overrides, Query, Recipe
from gymlab.mcp.commands import gymlab, gymlab_json
from gymlab.mcp.config import Lab

_T = TypeVar("_T")
# What decides how a recipe learns; the rest is told on request.
_BRIEF = ("env.id", "env.solved_at", "env.wrappers", "env.kwargs", "budget", "n_envs", "n_steps", "policy.hidden")
_BRIEF_BLOCKS = ("normalize", "stop")


def paged(items: Sequence[_T], limit: int, offset: int) -> tuple[list[_T], int | None]:
    """One page, and where the next begins."""
    page = list(items[offset : offset + limit])
    following = offset + len(page)
    return page, following if following < len(items) else None


def list_envs(lab: Lab, query: Query = "", limit: Limit = 20, offset: Offset = 0) -> Envs:
    """List environments that can be trained on."""
    found = [env for env in _envs(lab) if query.lower() in env["id"].lower()]
    page, following = paged(found, limit, offset)
    return Envs(envs=[Env.model_validate(env) for env in page], total=len(found), next_offset=following)


@lru_cache(maxsize=1)
def _envs(lab: Lab) -> list[dict[str, Any]]:
    rows = json.loads(gymlab(lab, "envs", "list", "--json"))
    return [{key: row[key] for key in ("id", "max_episode_steps", "solved_at", "needs")} for row in rows]


def list_recipes(lab: Lab, query: Query = "", limit: Limit = 30, offset: Offset = 0) -> Recipes:
    """List tuned recipes (ENV:VARIANT): the user's own in ./recipes, then those that ship."""
    found = [entry for entry in _recipes() if query.lower() in entry.recipe.lower()]
    page, following = paged(found, limit, offset)
    return Recipes(recipes=page, total=len(found), next_offset=following)


def recipe_files() -> dict[str, Path]:
    """Recipe files by name; the user's stand in for those that ship."""
    from gymlab.recipes.resolve import packaged_files, user_files

    return {path.stem: path for path in (*packaged_files(), *reversed(user_files()))}


def recipe_folder_files() -> set[Path]:
    from gymlab.recipes.resolve import user_files

    return {form for path in user_files() for form in (path, path.absolute())}


def _recipes() -> list[RecipeName]:
    from gymlab.recipes.inherit import read_recipe_file
    from gymlab.recipes.problems import Problems
    from gymlab.recipes.resolve import packaged_files, user_files

    found: dict[str, RecipeName] = {}
    packaged = set(packaged_files())
    for path in (*user_files(), *packaged):
        try:
            file = read_recipe_file(path, Problems())
        except UserError:
            continue
        env = file.env.get("id")
        named = path.stem if env is None or path not in packaged else str(env.value)
        for variant in file.variants:
            source = "packaged" if path in packaged else f"recipes/{path.name}"
            found.setdefault(f"{named}:{variant}", RecipeName(recipe=f"{named}:{variant}", source=source))
    return sorted(found.values(), key=lambda entry: (entry.source == "packaged", entry.recipe))


def show_recipe(
    lab: Lab,
    recipe: Recipe,
    overrides: Overrides = None,
    everything: Annotated[bool, Field(description="Every key, not only what decides how it learns.")] = False,
) -> RecipeShown:
    """Show a recipe with every value decided, by full key as overrides take them."""
    found = shown_recipe(lab, recipe, overrides or [])
    settings = flat_settings(found["recipe"])
    if not everything:
        algorithm = next((key for key in settings if _algorithm_key(key)), "ppo.").partition(".")[0]
        blocks = (*_BRIEF_BLOCKS, algorithm)
        settings = {k: v for k, v in settings.items() if k in _BRIEF or k.partition(".")[0] in blocks}
    return RecipeShown(recipe=found["name"], source=_source(found["source"]), settings=settings, notes=found["notes"])


def _source(path: str | None) -> str:
    """Where a recipe comes from; where the package lies is nobody's business."""
    if path is None:
        return "defaults"
    return f"recipes/{Path(path).name}" if Path(path) in recipe_folder_files() else "packaged"


def validate_recipe(lab: Lab, recipe: Recipe, overrides: Overrides = None) -> Validity:
    """Check a recipe with overrides, without starting anything; problems name the nearest valid key."""
    try:
        found = shown_recipe(lab, recipe, overrides or [])
    except UserError as error:
        return Validity(valid=False, problems=str(error).splitlines())
    return Validity(valid=True, notes=found["notes"])


def shown_recipe(lab: Lab, recipe: str, overrides: Sequence[str]) -> dict[str, Any]:
    """`gymlab config show --json`."""
    found: dict[str, Any] = gymlab_json(lab, "config", "show", lab.recipe(recipe), *lab.overrides(overrides))
    return found


def flat_settings(recipe: dict[str, Any]) -> dict[str, Any]:
    """The file's mapping by full key, without what is not set."""
    (variant,) = recipe["variants"].values()
    blocks = {"env": recipe["env"], **variant}
    flat: dict[str, Any] = {}
    for key, value in blocks.items():
        flat |= {f"{key}.{leaf}": item for leaf, item in value.items()} if isinstance(value, dict) else {key: value}
    return {key: value for key, value in flat.items() if value not in (None, [], {})}


def explain(lab: Lab, name: Annotated[str, Field(min_length=1, max_length=80)]) -> Meanings:
    """Say what a metric (opt/approx_kl), setting (gae_lambda) or alert (entropy-collapse) is and what is healthy."""
    from gymlab.alerts import explain as alerts
    from gymlab.metrics import explain as metrics

    found = [*metrics.explain(name), *alerts.explain(name)]
    if found:
        told = [Meaning(name=e.name, kind=e.kind, text=e.help, facts=dict(e.facts)) for e in found]
    else:
        rows = gymlab_json(lab, "explain", "--", name) if name.startswith("-") else gymlab_json(lab, "explain", name)
        told = [Meaning(name=row["name"], kind=row["kind"], text=row["help"], facts=row["facts"]) for row in rows]
    return Meanings(found=told)


def recipe_text(name: str) -> str:
    """A recipe file as it is written."""
    files = recipe_files()
    if name not in files:
        raise UserError(f"no recipe file {name[:80]!r}: {suggestion(name[:80], files)}")
    return files[name].read_text(encoding="utf-8")


def _algorithm_key(key: str) -> bool:
    return key.partition(".")[2] == "learning_rate"
