"""Recipes as YAML text: dumping one, a commented file to start from, and `gymlab config fmt`."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypedDict, cast

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.nodes import MappingNode, Node
from ruamel.yaml.representer import RoundTripRepresenter

from gymlab.core.errors import UserError
from gymlab.core.settings import Settings
from gymlab.core.types import Json
from gymlab.recipes.problems import Problems, display_path
from gymlab.recipes.schema import BLOCKS, VARIANT_NAME, Recipe, algorithm_names
from gymlab.recipes.yaml_source import compose, read_text

MAX_CACHED_TEXTS = 256  # texts, of a few kilobytes each
_yaml_cache: dict[str, str] = {}


def variant_mapping(recipe: Recipe) -> dict[str, Json]:
    """Plain data, as one flattened variant: the env inside, the algorithm's block under its name."""
    fields = recipe.model_dump()
    chosen = fields["algorithm"]
    mapping = {chosen["name"] if key == "algorithm" else key: value for key, value in fields.items()}
    mapping[chosen["name"]] = chosen["settings"]
    data = {key: _as_data(value) for key, value in mapping.items() if key != "name"}
    return {key: value if key == "features" else _floats_to_ints(value) for key, value in data.items()}


class RecipeMapping(TypedDict):
    """The shape of a recipe file, as plain data."""

    env: dict[str, Json]
    variants: dict[str, dict[str, Json]]


def file_mapping(recipe: Recipe) -> RecipeMapping:
    """Plain data, in the shape of a recipe file with one variant."""
    variant = variant_mapping(recipe)
    env = cast("dict[str, Json]", variant.pop("env"))
    label = recipe.name.rpartition(":")[2]
    if not VARIANT_NAME.fullmatch(label) or label in algorithm_names():
        label = label if label == recipe.algorithm.name else "run"
    if recipe.name != f"{env['id']}:{label}":
        variant = {"name": recipe.name, **variant}
    return {"env": env, "variants": {label: variant}}


def dump_recipe(recipe: Recipe) -> str:
    """Every value of a recipe, in the shape of a recipe file; `resolve.read_run_recipe` gives an equal recipe back."""
    return dump_yaml(file_mapping(recipe))


def _as_data(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _as_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_data(item) for item in value]
    return value


def _floats_to_ints(value: Json) -> Json:
    """475.0 as 475 in our own settings; arguments of user code stay unchanged."""
    if isinstance(value, dict):
        return {key: item if key in ("kwargs", "wrappers") else _floats_to_ints(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_floats_to_ints(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else value


def _to_ruamel(value: object) -> object:
    """Plain data in ruamel's types, with lists of plain values on one line."""
    if isinstance(value, dict):
        tree = CommentedMap((key, _to_ruamel(item)) for key, item in value.items())
        if not value:
            tree.fa.set_flow_style()
        return tree
    if isinstance(value, list):
        items = CommentedSeq(_to_ruamel(item) for item in value)
        if not any(isinstance(item, dict) for item in value):
            items.fa.set_flow_style()
        return items
    return value


class _Representer(RoundTripRepresenter):
    """Writes None as `null` instead of an empty value."""


_Representer.add_representer(type(None), lambda self, _: self.represent_scalar("tag:yaml.org,2002:null", "null"))


def dump_yaml(mapping: Mapping[str, object]) -> str:
    """Plain data as YAML text, two spaces a level. Cached: the runs of a campaign have nearly equal recipes."""
    key = repr(mapping)
    text = _yaml_cache.get(key)
    if text is None:
        if len(_yaml_cache) >= MAX_CACHED_TEXTS:  # other threads may write too: no key is read twice
            _yaml_cache.clear()
        text = _yaml_cache[key] = _to_text(_to_ruamel(mapping))
    return text


def _to_text(tree: object) -> str:
    yaml = YAML()
    yaml.Representer = _Representer
    yaml.width = 10_000  # never folds a line
    yaml.indent(mapping=2, sequence=4, offset=2)
    buffer = io.StringIO()
    yaml.dump(tree, buffer)
    return buffer.getvalue()


def recipe_file_name(env_id: str) -> str:
    """The name of an env's recipe file: `ALE/Pong-v5` is in `ALE-Pong-v5.yaml`."""
    text = re.sub(r"[^\w.-]+", "-", env_id.removeprefix("./").replace(".py:", "-")).strip("-.")
    return f"{text[:100] or 'recipe'}.yaml"


def write_starter(recipe: Recipe, *, force: bool = False) -> Path:
    """Write ./recipes/ENV.yaml with every value of the recipe, commented; returns its path."""
    path = Path("recipes") / recipe_file_name(recipe.env.id)
    if path.exists() and not force:
        raise UserError(f"{path} exists already: edit it, or overwrite it with --force")
    text = starter_text(recipe)
    path.parent.mkdir(exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
    return path


def starter_text(recipe: Recipe) -> str:
    """A recipe file to edit: the resolved values, each with its help."""
    full = file_mapping(recipe)
    ((label, values),) = full["variants"].items()
    variant = cast("dict[str, Json]", _without_unset(values))
    variant.pop("name", None)
    text = dump_yaml({"env": _without_unset(full["env"]), "variants": {label: variant}})
    helps: dict[tuple[str, ...], str] = {("variants", label): f"gymlab train {recipe.env.id}:{label}"}
    helps |= _helps(recipe.env, ("env",)) | _helps(recipe, ("variants", label))
    for key in variant:
        block = recipe.algorithm.settings if key == recipe.algorithm.name else getattr(recipe, key)
        if isinstance(block, Settings):
            helps |= _helps(block, ("variants", label, key))
    about = (type(recipe.algorithm.settings).__doc__ or "The algorithm.").strip().splitlines()[0]
    helps["variants", label, recipe.algorithm.name] = about
    return _annotate(text, helps)


def _helps(settings: Settings, prefix: tuple[str, ...]) -> dict[tuple[str, ...], str]:
    fields = type(settings).model_fields.items()
    return {(*prefix, key): field.description.splitlines()[0] for key, field in fields if field.description}


def _annotate(text: str, helps: dict[tuple[str, ...], str]) -> str:
    """Append each key's help to its line as a comment, all in one column."""
    lines = text.splitlines()
    places = {path: line for path, line in _key_lines(compose(text, "starter"), ()) if path in helps}
    column = max(min(len(lines[line]), 36) for line in places.values()) + 2
    for path, line in places.items():
        lines[line] = f"{lines[line].ljust(column - 2)}  # {helps[path]}"
    return "\n".join(lines) + "\n"


def _key_lines(tree: Node | None, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    for key, value in tree.value if isinstance(tree, MappingNode) else ():
        yield (*path, key.value), key.start_mark.line
        yield from _key_lines(value, (*path, key.value))


def _without_unset(value: Json) -> Json:
    """Drop unset keys: None, empty lists and empty blocks."""
    if not isinstance(value, dict):
        return value
    kept = {key: _without_unset(item) for key, item in value.items()}
    return {key: item for key, item in kept.items() if item is not None and item not in ({}, [])}


_VARIANT_ORDER = ("extends", *Recipe.model_fields)  # `algorithm` stands for the block that bears its name


def format_recipe_text(text: str, file: str = "recipe") -> str:
    """The text with its keys in the schema's order. Text is moved, never rewritten, so comments stay. Idempotent."""
    formatted = "\n".join(line.rstrip() for line in text.splitlines()).strip("\n") + "\n"
    before = _parse_data(formatted, file)
    for depth in range(4):  # outermost first: moving a block keeps the lines inside it together
        formatted = _sort_at_depth(formatted, file, depth)
    if _parse_data(formatted, file) != before:
        raise UserError(f"{file}: cannot be sorted, because an alias (*) would come before its anchor (&)")
    return formatted


def format_recipe_file(path: Path, *, write: bool) -> bool:
    """Whether a file's keys are out of order; with `write` the file is then sorted."""
    name = display_path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{name}: cannot be read: {error}") from None
    formatted = format_recipe_text(text, name)
    if formatted == text:
        return False
    if write:
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.write_text(formatted, encoding="utf-8")
        temporary.replace(path)
    return True


def _parse_data(text: str, file: str) -> Json:
    problems = Problems()
    try:
        node = read_text(text, file, problems)
    except UserError:
        if "&" in text:
            return None
        raise
    problems.raise_any()
    return node.to_data()


def _sort_at_depth(text: str, file: str, depth: int) -> str:
    """Sort every mapping at one depth, the last in the text first, so that earlier positions stay valid."""
    found = [(path, node) for path, node in _mappings(compose(text, file), ()) if len(path) == depth]
    for path, node in reversed(found):
        order = _order(path)
        if order:
            text = (_sort_flow if node.flow_style else _sort_block)(text, node, order)
    return text


def _mappings(node: Node | None, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], MappingNode]]:
    if not isinstance(node, MappingNode):
        return []
    inner = [found for key, value in node.value for found in _mappings(value, (*path, str(key.value)))]
    return [(path, node), *inner]


def _order(path: tuple[str, ...]) -> tuple[str, ...]:
    """The key order of the mapping at a path of the file; () if any order is allowed."""
    if not path:
        return ("env", "variants")
    if path == ("env",):
        return tuple(BLOCKS["env"].model_fields)
    if path[0] != "variants" or len(path) < 2:
        return ()
    if len(path) == 2:
        return _VARIANT_ORDER
    if len(path) > 3:
        return ()
    return tuple(BLOCKS[path[2]].model_fields) if path[2] in BLOCKS else _settings_order(path[2])


def _settings_order(name: str) -> tuple[str, ...]:
    """The keys of an algorithm; for one given by reference those of all that ship, the shared ones first."""
    from gymlab.algorithms.registry import ALGORITHMS

    algorithms = [ALGORITHMS[name]] if name in ALGORITHMS else list(ALGORITHMS.values())
    return tuple(dict.fromkeys(key for algorithm in algorithms for key in algorithm.Settings.model_fields))


def _rank(key: str, order: tuple[str, ...]) -> int:
    bare = key.removesuffix("+")
    if bare in order:
        return order.index(bare)
    unknown = "algorithm" if "algorithm" in order else ""
    return order.index(unknown) if unknown else len(order)


def _sort_block(text: str, node: MappingNode, order: tuple[str, ...]) -> str:
    """Sort a block mapping by whole lines: each key moves with the comment lines above it and its value."""
    lines = text.splitlines()
    starts = [_with_comments(lines, key.start_mark.line, key.start_mark.column) for key, _ in node.value]
    end = _end(lines, node.value[-1][0]) if node.value else 0
    if len(starts) < 2 or sorted(set(starts)) != starts:
        return text
    chunks = [lines[a:b] for a, b in zip(starts, [*starts[1:], end], strict=True)]
    ranks = [_rank(str(key.value), order) for key, _ in node.value]
    chosen = [chunks[index] for index in sorted(range(len(chunks)), key=lambda index: ranks[index])]
    if chosen == chunks:
        return text
    return "\n".join([*lines[: starts[0]], *(line for chunk in chosen for line in chunk), *lines[end:]]) + "\n"


def _with_comments(lines: list[str], line: int, column: int) -> int:
    """The first of the comment lines directly above a key, at its own indentation; the file's head stays at the top."""
    first = line
    while first > 0 and re.fullmatch(rf" {{{column}}}#.*", lines[first - 1]):
        first -= 1
    return first if first > 0 else line


def _end(lines: list[str], last_key: Node) -> int:
    """The line after the last entry of a block: where something is indented less, or as much in a list above."""
    column: int = last_key.start_mark.column
    end: int = last_key.start_mark.line + 1
    for index in range(end, len(lines)):
        line = lines[index]
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent <= column and not (indent == column and line.lstrip().startswith("- ")):
            break
        if line.strip():
            end = index + 1
    return end


def _sort_flow(text: str, node: MappingNode, order: tuple[str, ...]) -> str:
    """Sort the entries of a flow mapping `{a: 1, b: 2}`; the separators stay in place."""
    spans = [(key.start_mark.index, value.end_mark.index) for key, value in node.value]
    if len(spans) < 2 or "#" in text[spans[0][0] : spans[-1][1]]:
        return text
    ranks = [_rank(str(key.value), order) for key, _ in node.value]
    chosen = sorted(range(len(spans)), key=lambda index: ranks[index])
    pieces = [text[: spans[0][0]]]
    for position, index in enumerate(chosen):
        start, stop = spans[index]
        pieces.append(text[start:stop])
        pieces.append(text[spans[position][1] : spans[position + 1][0]] if position + 1 < len(spans) else "")
    return "".join(pieces) + text[spans[-1][1] :]
