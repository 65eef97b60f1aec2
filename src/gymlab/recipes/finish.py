"""The last steps from a flattened variant to a Recipe: the env's true name, defaults, checks, the threshold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import Field, TypeAdapter, ValidationError

from gymlab.algorithms.settings import AlgorithmSettings
from gymlab.core.clock import Count, parse_number
from gymlab.core.errors import UserError
from gymlab.envs.settings import EnvSettings
from gymlab.networks.settings import ENCODER_NAMES
from gymlab.recipes import auto_steps, defaults
from gymlab.recipes.defaults import Threshold
from gymlab.recipes.file_references import Algorithms
from gymlab.recipes.merge import is_algorithm_key
from gymlab.recipes.problems import KeyPath, Problems
from gymlab.recipes.schema import Recipe
from gymlab.recipes.secrets import keep_variant_secret
from gymlab.recipes.validate import Checker
from gymlab.recipes.yaml_source import Node, made

_N_ENVS = TypeAdapter(Annotated[Count, Field(ge=1)])


class Finished(NamedTuple):
    """A recipe, its threshold's source, and what to tell the user."""

    recipe: Recipe
    solved_at: Threshold
    notes: list[str]


def finish_run(variant: Node, name: str, problems: Problems) -> Recipe:
    """A run's recipe: every value is written, so nothing is looked up or completed."""
    keep_variant_secret(variant.plain())
    return _checked(_checker(variant, problems), name, problems)


def finish(
    variant: Node, variant_name: str, problems: Problems, *, from_defaults: bool, modules: Sequence[str] = ()
) -> Finished:
    """Complete and check a variant; raises with all problems found so far."""
    notes: list[str] = []
    variant = _with_imports(variant, modules, problems)
    variant = _true_env(variant, problems, notes)
    keep_variant_secret(variant.plain())  # before an env is made, which may print them
    checker = _checker(variant, problems)
    env_id = variant.get("env", "id")
    if checker.settings is not None and env_id is not None and not problems:
        checker.node = _completed(variant, checker.settings, problems, from_defaults=from_defaults)
        checker.node = _measured(checker, problems, notes)
    recipe = _checked(checker, f"{env_id.value if env_id else ''}:{variant_name}", problems)
    _try_parts(recipe, checker.node, problems)
    problems.raise_any()
    solved_at = defaults.threshold(recipe.env, checker.node.get("env", "solved_at"))
    recipe = recipe.model_copy(update={"env": recipe.env.model_copy(update={"solved_at": solved_at.value})})
    warning = defaults.unreachable(recipe.env, solved_at)
    return Finished(recipe, solved_at, [*notes, warning] if warning else notes)


def _checker(variant: Node, problems: Problems) -> Checker:
    name = next((key for key in variant.value if is_algorithm_key(key)), None)
    settings = None if name is None else Algorithms(problems).settings(name, variant.value[name].place)
    return Checker(variant, name, settings)


def _checked(checker: Checker, name: str, problems: Problems) -> Recipe:
    recipe = checker.recipe(name)
    problems.extend(checker.problems)
    problems.raise_any()
    assert recipe is not None
    return recipe


def _with_imports(variant: Node, modules: Sequence[str], problems: Problems) -> Node:
    """The recipe's own modules and those of the command line, imported and written down."""
    from gymlab.envs.references import import_module

    written = variant.get("imports")
    own = written.value if written is not None and isinstance(written.value, list) else []
    for node in own:
        if isinstance(node.value, str):
            try:
                import_module(node.value, "imports")
            except UserError as error:
                problems.note(node.place, "", str(error))
    if not modules or (written is not None and not isinstance(written.value, list)):
        return variant
    names = dict.fromkeys([*modules, *(node.value for node in own if isinstance(node.value, str))])
    return Node({**variant.value, "imports": made(list(names), variant.place)}, variant.place)


def _true_env(variant: Node, problems: Problems, notes: list[str]) -> Node:
    """The env under its present name, with what an old name stood for, and numbers as people write them."""
    from gymlab.envs.registry import resolve_id

    env = variant.get("env")
    name = variant.get("env", "id")
    if env is None or name is None or not isinstance(name.value, str):
        return variant
    block = {key: _numbers(node) if key in ("kwargs", "wrappers") else node for key, node in env.items()}
    try:
        resolved = resolve_id(name.value)
    except UserError as error:
        problems.note(name.place, "env.id", str(error))
        return variant
    if resolved.note:
        notes.append(resolved.note)
    block["id"] = Node(resolved.id, name.place)
    if resolved.kwargs:
        own = block.get("kwargs") or Node({}, name.place)
        block["kwargs"] = Node({**made(resolved.kwargs, name.place).value, **dict(own.items())}, own.place)
    return Node({**variant.value, "env": Node(block, env.place)}, variant.place)


def _numbers(node: Node) -> Node:
    """`100k` and `10%` are numbers everywhere, also where the schema cannot know it. Quoted text stays text."""
    if isinstance(node.value, dict):
        return Node({key: _numbers(item) for key, item in node.value.items()}, node.place)
    if isinstance(node.value, list):
        return Node([_numbers(item) for item in node.value], node.place)
    return node if node.quoted else Node(parse_number(node.value), node.place)


def _completed(variant: Node, settings: type[AlgorithmSettings], problems: Problems, *, from_defaults: bool) -> Node:
    env_block = variant.value["env"]
    env_id: str = env_block.value["id"].value
    chosen: dict[str, Any] = {}
    if from_defaults:
        try:
            chosen = defaults.from_spaces(EnvSettings.model_validate(env_block.plain()))
        except ValidationError:
            pass  # reported with its place when the whole recipe is checked
        except UserError as error:
            problems.note(env_block.place, "env", str(error))
    if "n_steps" not in variant.value:
        chosen["n_steps"] = defaults.n_steps(settings, variant, env_id)
    return defaults.fill(variant, chosen)


def _measured(checker: Checker, problems: Problems, notes: list[str]) -> Node:
    """The variant with a number for `n_steps: auto`; what else is wrong with it is told when it is checked."""
    variant = checker.node
    written = checker.node.get("n_steps")
    if written is None or written.value not in auto_steps.CHOICES:
        return variant
    choice = None
    if not problems:
        try:
            choice = _choose_n_steps(checker, written.value)
        except ValidationError:
            pass
        except UserError as error:
            problems.note(written.place, "n_steps", str(error))
    if choice is not None:
        notes.append(choice.note)
    number = made(Recipe.model_fields["n_steps"].default if choice is None else choice.n_steps, written.place)
    return Node({**variant.value, "n_steps": number}, variant.place)


def _choose_n_steps(checker: Checker, how: str) -> auto_steps.Choice:
    assert checker.settings is not None
    given = checker.node.plain()
    settings = checker.settings.model_validate(given[checker.algorithm] or {})
    n_envs = _N_ENVS.validate_python(given.get("n_envs", Recipe.model_fields["n_envs"].default))
    env = EnvSettings.model_validate(given["env"])
    imports = tuple(given.get("imports") or ())
    return auto_steps.choose(how, env, imports, settings, n_envs)


def _try_parts(recipe: Recipe, node: Node, problems: Problems) -> None:
    """Load what the recipe names and, where it changes the env, make it once: the error then has a place."""
    from gymlab.envs.make import make_env, split_wrappers
    from gymlab.envs.references import load_reference

    def note(path: KeyPath, error: UserError) -> None:
        problems.note(node.place_of(path), path, str(error))

    for index, part in enumerate(recipe.env.wrappers):
        try:
            split_wrappers(recipe.env.model_copy(update={"wrappers": (part,)}))
        except UserError as error:
            note(("env", "wrappers", index), error)
    named: list[tuple[KeyPath, str]] = [(("features", i), part.name) for i, part in enumerate(recipe.features)]
    if recipe.policy.encoder is not None and recipe.policy.encoder not in ENCODER_NAMES:
        named.append((("policy", "encoder"), recipe.policy.encoder))
    for path, reference in named:
        try:
            load_reference(reference)
        except UserError as error:
            note(path, error)
    if (recipe.env.kwargs or recipe.env.wrappers) and not problems:
        try:
            make_env(recipe.env).close()
        except UserError as error:
            _note_unmade(error, recipe, node, problems)


def _note_unmade(error: UserError, recipe: Recipe, node: Node, problems: Problems) -> None:
    """An env that could not be made: point at the argument it names, else at what was changed about it."""
    text = str(error).removeprefix("env.kwargs: ")
    named = re.search(r"no parameter '(\w+)'", text)
    block = "kwargs" if recipe.env.kwargs else "wrappers"
    path = ("env", "kwargs", named[1]) if named and named[1] in recipe.env.kwargs else ("env", block)
    problems.note(node.place_of(path), path, text)
