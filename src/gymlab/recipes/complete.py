"""Completes a merged variant to a Recipe: imports, the env's registered id, defaults, `n_steps: auto`, threshold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, cast

from pydantic import Field, TypeAdapter, ValidationError

from gymlab.algorithms.settings import OPTIMIZER_NAMES, AlgorithmSettings
from gymlab.core.clock import Count, parse_number
from gymlab.core.errors import UserError
from gymlab.core.types import Json, JsonObject
from gymlab.envs.settings import EnvSettings, Part, PartLike
from gymlab.networks.settings import ENCODER_NAMES
from gymlab.recipes import auto_steps
from gymlab.recipes.file_references import AlgorithmLookup
from gymlab.recipes.problems import COMMAND_LINE, KeyPath, Problems
from gymlab.recipes.reachable_goal import unreachable_goal_note
from gymlab.recipes.schema import Recipe, is_algorithm_key
from gymlab.recipes.secrets import register_variant_secrets
from gymlab.recipes.validate import VariantValidator
from gymlab.recipes.yaml_source import Node, to_node

_N_ENVS = TypeAdapter(Annotated[Count, Field(ge=1)])
_PART: TypeAdapter[Part] = TypeAdapter(PartLike)


class CompletedRecipe(NamedTuple):
    """A recipe, its threshold with its source, and notes for the user."""

    recipe: Recipe
    solved_at: Threshold
    notes: list[str]


def complete_run_variant(variant: Node, name: str, problems: Problems) -> Recipe:
    """A run's recipe: every value is written, so nothing is looked up or completed."""
    register_variant_secrets(variant.to_data())
    return _validate(_make_validator(variant, problems), name, problems)


def complete_variant(
    variant: Node, variant_name: str, problems: Problems, *, from_defaults: bool, modules: Sequence[str] = ()
) -> CompletedRecipe:
    """Complete and check a variant; raises with all problems found so far."""
    notes: list[str] = []
    variant = _with_imports(variant, modules, problems)
    variant = _with_registered_env(variant, problems, notes)
    register_variant_secrets(variant.to_data())  # before an env is made, which may print them
    validator = _make_validator(variant, problems)
    env_id = variant.get("env", "id")
    complete = validator.settings is not None and env_id is not None and not problems
    _check_listed_parts(variant, problems)
    if complete:
        assert validator.settings is not None
        makes_env = from_defaults and not problems
        validator.node = _with_defaults(variant, validator.settings, problems, from_defaults=makes_env)
        validator.node = _with_measured_n_steps(validator, problems, notes)
    recipe = _validate(validator, f"{env_id.value if env_id else ''}:{variant_name}", problems)
    _check_parts_load(recipe, validator.node, problems)
    problems.raise_any()
    solved_at = _threshold(recipe.env, validator.node.get("env", "solved_at"))
    recipe = recipe.model_copy(update={"env": recipe.env.model_copy(update={"solved_at": solved_at.value})})
    warning = unreachable_goal_note(recipe, solved_at.source, validator.node)
    return CompletedRecipe(recipe, solved_at, [*notes, warning] if warning else notes)


def _make_validator(variant: Node, problems: Problems) -> VariantValidator:
    name = next((key for key in variant.value if is_algorithm_key(key)), None)
    settings = None if name is None else AlgorithmLookup(problems).settings(name, variant.value[name].location)
    return VariantValidator(variant, name, settings)


def _validate(validator: VariantValidator, name: str, problems: Problems) -> Recipe:
    recipe = validator.recipe(name)
    problems.extend(validator.problems)
    problems.raise_any()
    assert recipe is not None
    return recipe


def _with_imports(variant: Node, modules: Sequence[str], problems: Problems) -> Node:
    """Import the recipe's modules and those of the command line; the variant lists them all."""
    from gymlab.envs.references import import_module

    written = variant.get("imports")
    own = written.value if written is not None and isinstance(written.value, list) else []
    for node in own:
        if isinstance(node.value, str):
            try:
                import_module(node.value, "imports")
            except UserError as error:
                problems.note(node.location, "", str(error))
    if not modules or (written is not None and not isinstance(written.value, list)):
        return variant
    names = dict.fromkeys([*modules, *(node.value for node in own if isinstance(node.value, str))])
    return Node({**variant.value, "imports": to_node(list(names), variant.location)}, variant.location)


def _with_registered_env(variant: Node, problems: Problems, notes: list[str]) -> Node:
    """The env under its current id, with the kwargs that an old id stood for, and with numbers parsed."""
    from gymlab.envs.registry import resolve_id

    env = variant.get("env")
    name = variant.get("env", "id")
    if env is None or name is None or not isinstance(name.value, str):
        return variant
    block = {key: _numbers(node) if key in ("kwargs", "wrappers") else node for key, node in env.items()}
    try:
        resolved = resolve_id(name.value)
    except UserError as error:
        problems.note(name.location, "env.id", str(error))
        return variant
    if resolved.note:
        notes.append(resolved.note)
    block["id"] = Node(resolved.id, name.location)
    if resolved.kwargs:
        own = block.get("kwargs") or Node({}, name.location)
        block["kwargs"] = Node({**to_node(resolved.kwargs, name.location).value, **dict(own.items())}, own.location)
    return Node({**variant.value, "env": Node(block, env.location)}, variant.location)


def _numbers(node: Node) -> Node:
    """Parse `100k` and `10%` as numbers in arguments that the schema does not cover. Quoted text stays text."""
    if isinstance(node.value, dict):
        return Node({key: _numbers(item) for key, item in node.value.items()}, node.location)
    if isinstance(node.value, list):
        return Node([_numbers(item) for item in node.value], node.location)
    return node if node.quoted else Node(parse_number(node.value), node.location)


def _with_defaults(
    variant: Node, settings: type[AlgorithmSettings], problems: Problems, *, from_defaults: bool
) -> Node:
    env_block = variant.value["env"]
    env_id: str = env_block.value["id"].value
    chosen: dict[str, Json] = {}
    if from_defaults:
        try:
            chosen = _defaults_from_spaces(EnvSettings.model_validate(env_block.to_data()))
        except ValidationError:
            pass  # reported with its line when the whole recipe is validated
        except UserError as error:
            problems.note(env_block.location, "env", str(error))
    if "n_steps" not in variant.value:
        chosen["n_steps"] = _default_n_steps(settings, variant, env_id)
    return _fill(variant, chosen)


def _with_measured_n_steps(validator: VariantValidator, problems: Problems, notes: list[str]) -> Node:
    """The variant with a number for `n_steps: auto`. Other faults are reported by the validation that follows."""
    variant = validator.node
    written = validator.node.get("n_steps")
    if written is None or written.value not in auto_steps.CHOICES:
        return variant
    choice = None
    if not problems:
        try:
            choice = _choose_n_steps(validator, written.value)
        except ValidationError:
            pass
        except UserError as error:
            problems.note(written.location, "n_steps", str(error))
    if choice is not None:
        notes.append(choice.note)
    number = to_node(Recipe.model_fields["n_steps"].default if choice is None else choice.n_steps, written.location)
    return Node({**variant.value, "n_steps": number}, variant.location)


def _choose_n_steps(validator: VariantValidator, how: str) -> auto_steps.StepsChoice:
    assert validator.settings is not None
    assert validator.algorithm is not None
    values: dict[str, Any] = dict(cast("JsonObject", validator.node.to_data()))
    settings = validator.settings.model_validate(values[validator.algorithm] or {})
    n_envs = _N_ENVS.validate_python(values.get("n_envs", Recipe.model_fields["n_envs"].default))
    env = EnvSettings.model_validate(values["env"])
    imports = tuple(values.get("imports") or ())
    return auto_steps.choose(how, env, imports, settings, n_envs)


def _check_listed_parts(variant: Node, problems: Problems) -> None:
    """Load each wrapper and feature and check its arguments, whatever else is wrong with the recipe."""
    from gymlab.envs.make import split_wrappers
    from gymlab.envs.references import load_reference

    for path in (("env", "wrappers"), ("features",)):
        listed = variant.get(*path)
        for index, node in enumerate(listed.value if listed is not None and isinstance(listed.value, list) else ()):
            try:
                part = _PART.validate_python(node.to_data())
                if path == ("features",):
                    load_reference(part.name)
                else:
                    split_wrappers(EnvSettings(id="", wrappers=(part,)))
            except ValidationError:
                pass  # reported when the whole recipe is validated
            except UserError as error:
                problems.note(node.location, (*path, index), str(error))


def _check_parts_load(recipe: Recipe, node: Node, problems: Problems) -> None:
    """Load the encoder and the optimiser and, if the recipe changes the env, make it once: errors then have a line."""
    from gymlab.envs.make import make_env
    from gymlab.envs.references import load_reference

    named: list[tuple[KeyPath, str]] = []
    if recipe.policy.encoder is not None and recipe.policy.encoder not in ENCODER_NAMES:
        named.append((("policy", "encoder"), recipe.policy.encoder))
    algorithm = recipe.algorithm
    if algorithm.settings.optimizer not in OPTIMIZER_NAMES:
        named.append(((algorithm.name, "optimizer"), algorithm.settings.optimizer))
    for path, reference in named:
        try:
            load_reference(reference)
        except UserError as error:
            problems.note(node.location_of(path), path, str(error))
    if (recipe.env.kwargs or recipe.env.wrappers) and not problems:
        try:
            make_env(recipe.env).close()
        except UserError as error:
            _note_failed_env(error, recipe, node, problems)


def _note_failed_env(error: UserError, recipe: Recipe, node: Node, problems: Problems) -> None:
    """Report an env that could not be made at the argument the error names, else at its kwargs or wrappers."""
    text = str(error).removeprefix("env.kwargs: ")
    named = re.search(r"no parameter '(\w+)'", text)
    block = "kwargs" if recipe.env.kwargs else "wrappers"
    path = ("env", "kwargs", named[1]) if named and named[1] in recipe.env.kwargs else ("env", block)
    problems.note(node.location_of(path), path, text)


class Threshold(NamedTuple):
    """The return that counts as solved, and where it comes from."""

    value: float | None
    source: str  # recipe, override, spec or none


def _fill(variant: Node, defaults: dict[str, Json]) -> Node:
    """The variant with defaults for the keys it lacks."""
    merged = dict(variant.value)
    for key, value in defaults.items():
        if key not in merged or merged[key].value is None:
            merged[key] = to_node(value, variant.location)
    return Node(merged, variant.location)


def _default_n_steps(settings: type[AlgorithmSettings], variant: Node, env_id: str) -> int:
    """Steps per update if a recipe has none: the algorithm's default, or the env's time limit."""
    from gymlab.envs.make import time_limit

    if settings.default_n_steps is not None:
        return settings.default_n_steps
    written = variant.get("env", "max_episode_steps")
    limit = parse_number(written.value) if written is not None else None
    if isinstance(limit, int | float) and not isinstance(limit, bool) and 1 <= limit <= 10**6:
        return int(limit)
    return time_limit(EnvSettings(id=env_id))


def _defaults_from_spaces(env: EnvSettings) -> dict[str, Json]:
    """Defaults for an env without a recipe, from its action space: Box gets normalisation and a larger budget."""
    from gymnasium.spaces import Box

    from gymlab.envs.make import make_env

    env_instance = make_env(env)
    try:
        continuous = isinstance(env_instance.action_space, Box)
    finally:
        env_instance.close()
    return {"budget": "1M", "normalize": {"obs": True, "reward": True}} if continuous else {}


def _threshold(env: EnvSettings, written: Node | None) -> Threshold:
    """`solved_at`: an override, else the recipe (the variant before the env block), else the registration."""
    from gymlab.envs.registry import spec_threshold

    if env.solved_at is not None:
        return Threshold(
            env.solved_at, "override" if written is not None and written.location == COMMAND_LINE else "recipe"
        )
    registered = spec_threshold(env.id)
    return Threshold(registered, "none" if registered is None else "spec")
