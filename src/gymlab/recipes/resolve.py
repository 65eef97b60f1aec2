"""From `ENV[:VARIANT] key=value ...` to a Recipe. Every command that needs a recipe comes through here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gymlab.core.errors import UserError, suggestion
from gymlab.recipes import project_settings
from gymlab.recipes.file_references import Algorithms, anchor_variant
from gymlab.recipes.finish import finish, finish_run
from gymlab.recipes.inherit import Flat, Flattener, RecipeFile, default_variant, read_recipe_file, recipe_text
from gymlab.recipes.lookup import Target, find, is_yaml
from gymlab.recipes.merge import algorithm_names, is_algorithm_key
from gymlab.recipes.overrides import Overrides
from gymlab.recipes.problems import COMMAND_LINE, Place, Problems, RecipeError, shown_path
from gymlab.recipes.schema import Recipe
from gymlab.recipes.yaml_source import Node, made
from gymlab.recipes.yaml_writer import variant_mapping
from gymlab.runs.manifest import read_manifest
from gymlab.runs.paths import RunPaths


@dataclass(frozen=True)
class Resolved:
    """A recipe and how it came about."""

    recipe: Recipe
    source: Path | None  # None: no file describes it, the values are defaults
    notes: list[str] = field(default_factory=list)
    solved_at_source: str = "none"  # recipe, override, spec or none


@dataclass(frozen=True)
class _Chosen:
    name: str
    flat: Flat
    source: Path | None


def resolve(
    reference: str,
    overrides: Sequence[str] = (),
    *,
    sets: Sequence[str] = (),
    budget: str | None = None,
    engine: str | None = None,
    device: str | None = None,
    imports: Sequence[str] = (),
) -> Resolved:
    """Find, inherit, override, complete and check. Raises one UserError that lists every problem."""
    modules = _import(
        [*((m, project_settings.NAME) for m in project_settings.imports()), *((m, "--import") for m in imports)]
    )
    problems = Problems()
    target = find(reference)
    chosen = _choose(target, problems)
    typed = [*overrides, *sets, *_options(budget, engine, device)]
    node, told = _settings(anchor_variant(chosen.flat.node), chosen.name, typed, problems)
    node = _override(node, typed, problems)
    finished = finish(node, chosen.name, problems, from_defaults=chosen.flat.from_defaults, modules=modules)
    notes = list(dict.fromkeys([*([target.note] if target.note else []), *told, *finished.notes]))
    if budget is not None and not budget.endswith(("env_steps", "vec_steps")):
        notes.append(f"--budget {budget} counts env_steps")
    if chosen.source is None:
        notes.insert(0, f"no recipe for {finished.recipe.env.id}: defaults chosen from its spaces")
    return Resolved(finished.recipe, chosen.source, notes, finished.solved_at.source)


def amend(
    recipe: Recipe, overrides: Sequence[str] = (), *, budget: str | None = None, engine: str | None = None
) -> Recipe:
    """An existing recipe (a run's) with overrides; nothing else about it changes."""
    problems = Problems()
    node = made(variant_mapping(recipe), Place("the run's recipe"))
    node = _override(node, [*overrides, *_options(budget, engine, None)], problems)
    return finish_run(node, recipe.name, problems)


def load_yaml_text(text: str, variant: str | None = None, *, file: str = "recipe") -> Recipe:
    """A recipe from the text of a recipe file, as if it stood alone."""
    problems = Problems()
    chosen = _from_file(recipe_text(text, file, problems), variant, problems)
    node = anchor_variant(chosen.flat.node)
    return finish(node, chosen.name, problems, from_defaults=chosen.flat.from_defaults).recipe


def read_run_recipe(path: Path) -> Recipe:
    """The recipe.yaml of a run: every value is written there, so nothing is looked up or completed.

    An env that the run's own script had registered is made known here.
    """
    problems = Problems()
    told = read_manifest(RunPaths(path.parent)).get("registered")
    if isinstance(told, str):
        from gymlab.envs.registration import register_kept

        register_kept(told)
    return _run_recipe(read_recipe_file(path, problems), problems)


def read_run_text(text: str) -> Recipe:
    """The same from the text of such a file (`dump_recipe`'s), as another process has sent it."""
    problems = Problems()
    return _run_recipe(recipe_text(text, "recipe.yaml", problems), problems)


def _run_recipe(file: RecipeFile, problems: Problems) -> Recipe:
    chosen = _from_file(file, None, problems)
    env_id = chosen.flat.node.get("env", "id")
    return finish_run(chosen.flat.node, f"{env_id.value if env_id else ''}:{chosen.name}", problems)


def check_file(path: Path) -> list[str]:
    """Every variant of a recipe file, checked; the notes. Raises one UserError that lists all problems."""
    if not is_yaml(str(path)):
        raise UserError(f"{shown_path(path)}: a recipe file ends in .yaml")
    problems = Problems()
    file = read_recipe_file(path, problems)
    notes: list[str] = []
    for name in file.variants or (None,):
        reference = str(path) if name is None else f"{path}:{name}"
        try:
            notes += [f"{shown_path(path)}:{name}: {note}" for note in resolve(reference).notes]
        except RecipeError as error:
            problems.extend(error.problems)
    problems.raise_any()
    return notes


def variants_of(reference: str) -> list[str]:
    """The names that can follow `ENV:`, tuned ones first."""
    problems = Problems()
    files = [read_recipe_file(path, problems) for path in find(reference).files]
    return list(dict.fromkeys([*(name for file in files for name in file.variants), *algorithm_names()]))


def _choose(target: Target, problems: Problems) -> _Chosen:
    files = [read_recipe_file(path, problems) for path in target.files]
    own = files[:1] if target.only_first else files
    name = target.variant or next((name for file in own for name in file.variants), "ppo")
    for index, file in enumerate(own):
        if name in file.variants:
            return _Chosen(name, Flattener(files, problems).flatten(index, name), file.path)
    if name not in algorithm_names():
        known = [*(other for file in own for other in file.variants), *algorithm_names()]
        problems.note(COMMAND_LINE, f"{target.env}:{name}", f"unknown variant '{name}': {suggestion(name, known)}")
        problems.raise_any()
    env = own[0].env if own else made({"id": target.env}, COMMAND_LINE)
    return _Chosen(name, default_variant(name, env), own[0].path if own else None)


def _from_file(file: RecipeFile, variant: str | None, problems: Problems) -> _Chosen:
    name = variant or next(iter(file.variants), "ppo")
    if name in file.variants:
        return _Chosen(name, Flattener([file], problems).flatten(0, name), file.path)
    if name not in algorithm_names():
        known = [*file.variants, *algorithm_names()]
        problems.note(file.root.place, "variants", f"unknown variant '{name}': {suggestion(name, known)}")
        problems.raise_any()
    return _Chosen(name, default_variant(name, file.env), file.path)


def _override(variant: Node, texts: Sequence[str], problems: Problems, place: Place = COMMAND_LINE) -> Node:
    overrides = _overrides(variant, problems, place)
    if overrides is None or not texts:
        return variant
    variant = overrides.apply(variant, texts)
    problems.extend(overrides.problems)
    return variant


def _overrides(variant: Node, problems: Problems, place: Place = COMMAND_LINE) -> Overrides | None:
    find_settings = Algorithms(problems).settings
    name = next((key for key in variant.value if is_algorithm_key(key)), None)
    if name is None:
        return None
    return Overrides(name, find_settings(name, variant.value[name].place), find_settings, place)


def _settings(variant: Node, name: str, typed: Sequence[str], problems: Problems) -> tuple[Node, list[str]]:
    """The variant with what gymlab.toml says of it, and what to tell: all of that but what was typed otherwise."""
    env = variant.get("env", "id")
    found = project_settings.overrides(f"{env.value if env else ''}:{name}")
    keys = _overrides(variant, Problems())
    beaten = set() if keys is None else {keys.path(text.partition("=")[0].strip()) for text in typed}
    told: dict[str, list[str]] = {}
    for text, place in found:
        variant = _override(variant, [text], problems, place)
        if keys is not None and keys.path(text.partition("=")[0].strip()) not in beaten:
            told.setdefault(place.file, []).append(text)
    return variant, [f"from {file}: {' '.join(texts)}" for file, texts in told.items()]


def _options(budget: str | None, engine: str | None, device: str | None) -> list[str]:
    given = {"budget": budget, "engine": engine, "device": device}
    return [f"{key}={value}" for key, value in given.items() if value is not None]


def _import(modules: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    from gymlab.envs.references import import_module

    for module, wanted_by in modules:
        import_module(module, f"{wanted_by} {module}")
    return tuple(dict.fromkeys(module for module, _ in modules))
