"""`resolve`: from `ENV[:VARIANT] key=value ...` to a Recipe, and the search for recipe files. All commands use it."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from gymlab.core.errors import UserError, suggestion
from gymlab.recipes import project_settings
from gymlab.recipes.complete import complete_run_variant, complete_variant
from gymlab.recipes.file_references import AlgorithmLookup, rebase_references
from gymlab.recipes.inherit import (
    Flattener,
    FlatVariant,
    RecipeFile,
    default_variant,
    parse_recipe_text,
    read_recipe_file,
)
from gymlab.recipes.overrides import Overrides
from gymlab.recipes.problems import COMMAND_LINE, Location, Problem, Problems, RecipeError, display_path
from gymlab.recipes.schema import Recipe, algorithm_names, is_algorithm_key
from gymlab.recipes.write import recipe_file_name, variant_mapping
from gymlab.recipes.yaml_source import Node, to_node
from gymlab.runs.manifest import read_manifest
from gymlab.runs.paths import RunPaths

PACKAGED = Path(__file__).parent / "data"
SUFFIXES = (".yaml", ".yml")
_IDS = re.compile(r"(?:^|[\s{,])id:\s*['\"]?([^\s'\",}#]+)")


@dataclass(frozen=True)
class RecipeTarget:
    """The env, variant and files that a reference names."""

    env: str  # as written: an id, a reference or the path of a recipe
    variant: str | None
    files: tuple[Path, ...]  # first match wins; lower ones can be extended
    only_first: bool = False  # a path: variants come from this file alone
    note: str = ""  # the current id of an env given by an old one


def find_target(reference: str) -> RecipeTarget:
    """Split a reference and find the recipe files of its env."""
    head, colon, tail = reference.rpartition(":")
    errors: dict[str, UserError] = {}
    # What follows the last ':' is a variant only if what precedes it is an env.
    for env, variant in ((head, tail), (reference, None)) if colon else ((reference, None),):
        try:
            target = _target(env, variant)
        except UserError as error:
            errors[env] = error
            continue
        if variant == "":
            raise _error(f"'{reference}': name a variant after the ':', or leave it out")
        return target
    about_env = head in errors and (
        is_yaml(head) or (not _is_module(head) and ("did you mean" in str(errors[head]) or "-v" in head))
    )
    raise _error(str(errors[head] if about_env else errors[reference]))


def is_yaml(text: str) -> bool:
    """Whether a reference is the path of a recipe file."""
    return text.lower().endswith(SUFFIXES)


def packaged_files() -> list[Path]:
    """The recipe files of the package."""
    return sorted(PACKAGED.glob("*.yaml"))


def user_files() -> list[Path]:
    """The recipe files of ./recipes, then of the folders named in gymlab.toml."""
    folders = [Path("recipes"), *project_settings.recipe_folders()]
    return [path for folder in folders for path in sorted(folder.glob("*")) if path.suffix in SUFFIXES]


def _target(env: str, variant: str | None) -> RecipeTarget:
    from gymlab.envs.registry import resolve_id

    if is_yaml(env):
        path = Path(env).expanduser()
        if not _is_file(path):
            near = [str(other) for other in (*path.parent.glob("*.y*ml"), *Path("recipes").glob("*.y*ml"))]
            raise UserError(f"there is no file '{env}'{f': {suggestion(env, near)}' if near else ''}")
        return RecipeTarget(env, variant, (path, *_files_below(path)), only_first=True)
    try:
        return RecipeTarget(env, variant, tuple(files_of(env)), note=resolve_id(env).note)
    except UserError:
        by_name = [path for path in user_files() if path.stem == env]
        if not by_name:
            raise
    return RecipeTarget(env, variant, (*by_name, *(path for path in _files_below(by_name[0]) if path not in by_name)))


def _files_below(path: Path) -> list[Path]:
    ids = _ids(path)
    return [other for other in files_of(ids[0]) if other.resolve() != path.resolve()] if ids else []


def files_of(env: str) -> list[Path]:
    """The recipe files whose env block names this env, the user's before ours."""
    from gymlab.envs.registry import resolve_id

    try:
        canonical = resolve_id(env).id
    except UserError:
        canonical = env
    own = [path for path in user_files() if _describes_env(path, canonical)]
    packaged = PACKAGED / recipe_file_name(canonical)
    return [*own, packaged] if packaged.is_file() else own


def _describes_env(path: Path, env_id: str) -> bool:
    """Whether a file's first `id:` is this env, under its current or an older id. A regex: no YAML is parsed."""
    from gymlab.envs.registry import resolve_id

    ids = _ids(path)
    if not ids:
        return False
    if ids[0] == env_id:
        return True
    stem = re.split(r"-v\d", env_id.rpartition("/")[2])[0]
    if ":" in ids[0] or stem not in ids[0]:
        return False
    try:
        return resolve_id(ids[0]).id == env_id
    except UserError:
        return False


def _ids(path: Path) -> list[str]:
    try:
        return _IDS.findall(path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return []


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # too long for a path, or with characters that a path cannot have
        return False


def _is_module(text: str) -> bool:
    if text.endswith(".py"):
        return True
    try:
        return bool(re.fullmatch(r"[A-Za-z_][\w.]*", text)) and importlib.util.find_spec(text) is not None
    except (ImportError, ValueError, AttributeError):
        return "." in text


def _error(text: str) -> RecipeError:
    return RecipeError([Problem(COMMAND_LINE, "", text)])


@dataclass(frozen=True)
class Resolved:
    """A recipe, its source file and notes for the user."""

    recipe: Recipe
    source: Path | None  # None: no file describes it, the values are defaults
    notes: list[str] = field(default_factory=list)
    solved_at_source: str = "none"  # recipe, override, spec or none


class _ChosenVariant(NamedTuple):
    name: str
    flat: FlatVariant
    source: Path | None
    notes: Sequence[str] = ()


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
    """Find the recipe, inherit, override, complete and validate. Raises one UserError that lists every problem."""
    modules = _import(
        [*((m, project_settings.NAME) for m in project_settings.imports()), *((m, "--import") for m in imports)]
    )
    problems = Problems()
    target = find_target(reference)
    chosen = _choose(target, problems)
    typed = [*overrides, *sets, *_options(budget, engine, device)]
    node, applied = _apply_project_overrides(rebase_references(chosen.flat.node), chosen.name, typed, problems)
    node = _apply_overrides(node, typed, problems)
    completed = complete_variant(node, chosen.name, problems, from_defaults=chosen.flat.from_defaults, modules=modules)
    notes = list(dict.fromkeys([*([target.note] if target.note else []), *chosen.notes, *applied, *completed.notes]))
    if budget is not None and not budget.endswith(("env_steps", "vec_steps")):
        notes.append(f"--budget {budget} counts env_steps")
    if chosen.source is None:
        notes.insert(0, f"no recipe for {completed.recipe.env.id}: defaults chosen from its spaces")
    return Resolved(completed.recipe, chosen.source, notes, completed.solved_at.source)


def amend(
    recipe: Recipe, overrides: Sequence[str] = (), *, budget: str | None = None, engine: str | None = None
) -> Recipe:
    """An existing recipe (usually a run's) with overrides; nothing else changes."""
    problems = Problems()
    node = to_node(variant_mapping(recipe), Location("the run's recipe"))
    node = _apply_overrides(node, [*overrides, *_options(budget, engine, None)], problems)
    return complete_run_variant(node, recipe.name, problems)


def load_yaml_text(text: str, variant: str | None = None, *, file: str = "recipe") -> Recipe:
    """A recipe from the text of a recipe file; no other file is read."""
    problems = Problems()
    chosen = _from_file(parse_recipe_text(text, file, problems), variant, problems)
    node = rebase_references(chosen.flat.node)
    return complete_variant(node, chosen.name, problems, from_defaults=chosen.flat.from_defaults).recipe


def read_run_recipe(path: Path) -> Recipe:
    """The recipe.yaml of a run. It has every value, so nothing is looked up or completed.

    An env that the run's own script had registered is registered again.
    """
    problems = Problems()
    registered = read_manifest(RunPaths(path.parent)).get("registered")
    if isinstance(registered, str):
        from gymlab.envs.registry import register_from_manifest

        register_from_manifest(registered)
    return _run_recipe(read_recipe_file(path, problems), problems)


def read_run_text(text: str) -> Recipe:
    """`read_run_recipe` from the text of such a file (by `dump_recipe`), as sent by another process."""
    problems = Problems()
    return _run_recipe(parse_recipe_text(text, "recipe.yaml", problems), problems)


def _run_recipe(file: RecipeFile, problems: Problems) -> Recipe:
    chosen = _from_file(file, None, problems)
    env_id = chosen.flat.node.get("env", "id")
    return complete_run_variant(chosen.flat.node, f"{env_id.value if env_id else ''}:{chosen.name}", problems)


def check_file(path: Path) -> list[str]:
    """Validate every variant of a recipe file; returns the notes. Raises one UserError that lists all problems."""
    if not is_yaml(str(path)):
        raise UserError(f"{display_path(path)}: a recipe file ends in .yaml")
    problems = Problems()
    file = read_recipe_file(path, problems)
    notes: list[str] = []
    for name in file.variants or (None,):
        reference = str(path) if name is None else f"{path}:{name}"
        try:
            notes += [f"{display_path(path)}:{name}: {note}" for note in resolve(reference).notes]
        except RecipeError as error:
            problems.extend(error.problems)
    problems.raise_any()
    return notes


def variants_of(reference: str) -> list[str]:
    """The variants that can follow `ENV:`, those of recipe files first."""
    files, _ = _read_files(find_target(reference), Problems())
    return list(dict.fromkeys([*(name for file in files for name in file.variants), *algorithm_names()]))


def _read_files(target: RecipeTarget, problems: Problems) -> tuple[list[RecipeFile], list[str]]:
    """The files of a target, and the faults of those left out.

    The files up to the one that has the variant must be sound; a broken one below it is left out.
    """
    files: list[RecipeFile] = []
    faults: list[str] = []
    found = False
    for path in target.files:
        own = Problems()
        try:
            file = read_recipe_file(path, own)
            if found:
                own.raise_any()
        except UserError as error:
            if not found:
                raise
            faults += str(error).splitlines()
            continue
        problems.extend(own)
        files.append(file)
        found = found or target.only_first or (target.variant or next(iter(file.variants), None)) in file.variants
    return files, faults


def _choose(target: RecipeTarget, problems: Problems) -> _ChosenVariant:
    files, faults = _read_files(target, problems)
    chosen = _choose_among(files, target, problems)
    return chosen._replace(notes=[f"this recipe file was left out: {fault}" for fault in faults])


def _choose_among(files: list[RecipeFile], target: RecipeTarget, problems: Problems) -> _ChosenVariant:
    own = files[:1] if target.only_first else files
    name = target.variant or next((name for file in own for name in file.variants), "ppo")
    for index, file in enumerate(own):
        if name in file.variants:
            return _ChosenVariant(name, Flattener(files, problems).flatten(index, name), file.path)
    if name not in algorithm_names():
        known = [*(other for file in own for other in file.variants), *algorithm_names()]
        problems.note(COMMAND_LINE, f"{target.env}:{name}", f"unknown variant '{name}': {suggestion(name, known)}")
        problems.raise_any()
    env = own[0].env if own else to_node({"id": target.env}, COMMAND_LINE)
    return _ChosenVariant(name, default_variant(name, env), own[0].path if own else None)


def _from_file(file: RecipeFile, variant: str | None, problems: Problems) -> _ChosenVariant:
    name = variant or next(iter(file.variants), "ppo")
    if name in file.variants:
        return _ChosenVariant(name, Flattener([file], problems).flatten(0, name), file.path)
    if name not in algorithm_names():
        known = [*file.variants, *algorithm_names()]
        problems.note(file.root.location, "variants", f"unknown variant '{name}': {suggestion(name, known)}")
        problems.raise_any()
    return _ChosenVariant(name, default_variant(name, file.env), file.path)


def _apply_overrides(
    variant: Node, texts: Sequence[str], problems: Problems, location: Location = COMMAND_LINE
) -> Node:
    overrides = _make_overrides(variant, problems, location)
    if overrides is None or not texts:
        return variant
    variant = overrides.apply(variant, texts)
    problems.extend(overrides.problems)
    return variant


def _make_overrides(variant: Node, problems: Problems, location: Location = COMMAND_LINE) -> Overrides | None:
    find_settings = AlgorithmLookup(problems).settings
    name = next((key for key in variant.value if is_algorithm_key(key)), None)
    if name is None:
        return None
    return Overrides(name, find_settings(name, variant.value[name].location), find_settings, location)


def _apply_project_overrides(
    variant: Node, name: str, typed: Sequence[str], problems: Problems
) -> tuple[Node, list[str]]:
    """The variant with the overrides of gymlab.toml, and notes that list those that `typed` does not override."""
    env = variant.get("env", "id")
    found = project_settings.overrides(f"{env.value if env else ''}:{name}")
    keys = _make_overrides(variant, Problems())
    typed_paths = set() if keys is None else {keys.path(text.partition("=")[0].strip()) for text in typed}
    applied: dict[str, list[str]] = {}
    for text, location in found:
        variant = _apply_overrides(variant, [text], problems, location)
        if keys is not None and keys.path(text.partition("=")[0].strip()) not in typed_paths:
            applied.setdefault(location.file, []).append(text)
    return variant, [f"from {file}: {' '.join(texts)}" for file, texts in applied.items()]


def _options(budget: str | None, engine: str | None, device: str | None) -> list[str]:
    options = {"budget": budget, "engine": engine, "device": device}
    return [f"{key}={value}" for key, value in options.items() if value is not None]


def _import(modules: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    from gymlab.envs.references import import_module

    for module, requested_by in modules:
        import_module(module, f"{requested_by} {module}")
    return tuple(dict.fromkeys(module for module, _ in modules))
