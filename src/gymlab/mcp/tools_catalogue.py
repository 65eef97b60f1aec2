"""Tools that list environments and recipes, and explain names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field

from gymlab.core.errors import UserError, suggestion
from gymlab.mcp.answers import (
    EnvEntry,
    EnvsAnswer,
    MeaningEntry,
    MeaningsAnswer,
    RecipeAnswer,
    RecipeEntry,
    RecipesAnswer,
    ValidityAnswer,
)
from gymlab.mcp.arguments import Limit, Offset, Overrides, Query, Recipe
from gymlab.mcp.commands import gymlab, gymlab_json
from gymlab.mcp.config import ServerConfig

_T = TypeVar("_T")
# The settings that decide how a recipe learns; `everything` shows the others.
_BRIEF = ("env.id", "env.solved_at", "env.wrappers", "env.kwargs", "budget", "n_envs", "n_steps", "policy.hidden")
_BRIEF_BLOCKS = ("normalize", "stop")


def paged(items: Sequence[_T], limit: int, offset: int) -> tuple[list[_T], int | None]:
    """One page, and the offset of the next."""
    page = list(items[offset : offset + limit])
    following = offset + len(page)
    return page, following if following < len(items) else None


def list_envs(config: ServerConfig, query: Query = "", limit: Limit = 20, offset: Offset = 0) -> EnvsAnswer:
    """List environments that can be trained on."""
    found = [env for env in _envs(config) if query.lower() in env["id"].lower()]
    page, following = paged(found, limit, offset)
    return EnvsAnswer(envs=[EnvEntry.model_validate(env) for env in page], total=len(found), next_offset=following)


@lru_cache(maxsize=1)
def _envs(config: ServerConfig) -> list[dict[str, Any]]:
    rows = json.loads(gymlab(config, "envs", "list", "--json"))
    return [{key: row[key] for key in ("id", "max_episode_steps", "solved_at", "needs")} for row in rows]


def list_recipes(config: ServerConfig, query: Query = "", limit: Limit = 30, offset: Offset = 0) -> RecipesAnswer:
    """List tuned recipes (ENV:VARIANT): the user's own in ./recipes, then those that ship."""
    found = [entry for entry in _recipes() if query.lower() in entry.recipe.lower()]
    page, following = paged(found, limit, offset)
    return RecipesAnswer(recipes=page, total=len(found), next_offset=following)


def recipe_files() -> dict[str, Path]:
    """Recipe files by name; a user's file replaces a packaged one."""
    from gymlab.recipes.resolve import packaged_files, user_files

    return {path.stem: path for path in (*packaged_files(), *reversed(user_files()))}


def recipe_folder_files() -> set[Path]:
    from gymlab.recipes.resolve import user_files

    return {form for path in user_files() for form in (path, path.absolute())}


def _recipes() -> list[RecipeEntry]:
    from gymlab.recipes.inherit import read_recipe_file
    from gymlab.recipes.problems import Problems
    from gymlab.recipes.resolve import packaged_files, user_files

    found: dict[str, RecipeEntry] = {}
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
            found.setdefault(f"{named}:{variant}", RecipeEntry(recipe=f"{named}:{variant}", source=source))
    return sorted(found.values(), key=lambda entry: (entry.source == "packaged", entry.recipe))


def show_recipe(
    config: ServerConfig,
    recipe: Recipe,
    overrides: Overrides = None,
    everything: Annotated[bool, Field(description="Every key, not only what decides how it learns.")] = False,
) -> RecipeAnswer:
    """Show a recipe with every value decided, by full key as overrides take them."""
    found = resolved_recipe(config, recipe, overrides or [])
    settings = flat_settings(found["recipe"])
    if not everything:
        algorithm = next((key for key in settings if _algorithm_key(key)), "ppo.").partition(".")[0]
        blocks = (*_BRIEF_BLOCKS, algorithm)
        settings = {k: v for k, v in settings.items() if k in _BRIEF or k.partition(".")[0] in blocks}
    return RecipeAnswer(recipe=found["name"], source=_source(found["source"]), settings=settings, notes=found["notes"])


def _source(path: str | None) -> str:
    """Where a recipe comes from, without paths of the package."""
    if path is None:
        return "defaults"
    return f"recipes/{Path(path).name}" if Path(path) in recipe_folder_files() else "packaged"


def validate_recipe(config: ServerConfig, recipe: Recipe, overrides: Overrides = None) -> ValidityAnswer:
    """Check a recipe with overrides, without starting anything; problems name the nearest valid key."""
    try:
        found = resolved_recipe(config, recipe, overrides or [])
    except UserError as error:
        return ValidityAnswer(valid=False, problems=str(error).splitlines())
    return ValidityAnswer(valid=True, notes=found["notes"])


def resolved_recipe(config: ServerConfig, recipe: str, overrides: Sequence[str]) -> dict[str, Any]:
    """`gymlab config show --json`."""
    found: dict[str, Any] = gymlab_json(config, "config", "show", config.recipe(recipe), *config.overrides(overrides))
    return found


def flat_settings(recipe: dict[str, Any]) -> dict[str, Any]:
    """The file's mapping by full key, without empty values."""
    (variant,) = recipe["variants"].values()
    blocks = {"env": recipe["env"], **variant}
    flat: dict[str, Any] = {}
    for key, value in blocks.items():
        flat |= {f"{key}.{leaf}": item for leaf, item in value.items()} if isinstance(value, dict) else {key: value}
    return {key: value for key, value in flat.items() if value not in (None, [], {})}


def explain(config: ServerConfig, name: Annotated[str, Field(min_length=1, max_length=80)]) -> MeaningsAnswer:
    """Say what a metric (opt/approx_kl), setting (gae_lambda) or alert (entropy-collapse) is and what is healthy."""
    from gymlab.alerts import explain as alerts
    from gymlab.metrics import explain as metrics

    found = [*metrics.explain(name), *alerts.explain(name)]
    if found:
        meanings = [MeaningEntry(name=e.name, kind=e.kind, text=e.help, facts=dict(e.facts)) for e in found]
    else:
        rows = (
            gymlab_json(config, "explain", "--", name) if name.startswith("-") else gymlab_json(config, "explain", name)
        )
        meanings = [
            MeaningEntry(name=row["name"], kind=row["kind"], text=row["help"], facts=row["facts"]) for row in rows
        ]
    return MeaningsAnswer(found=meanings)


def recipe_text(name: str) -> str:
    """Text of a recipe file."""
    files = recipe_files()
    if name not in files:
        raise UserError(f"no recipe file {name[:80]!r}: {suggestion(name[:80], files)}")
    return files[name].read_text(encoding="utf-8")


def _algorithm_key(key: str) -> bool:
    return key.partition(".")[2] == "learning_rate"
