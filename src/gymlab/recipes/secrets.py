"""Secrets in a recipe: masked in the run folder, requested again when a run is resumed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from gymlab.core.errors import UserError
from gymlab.core.types import Json
from gymlab.recipes.overrides import Change
from gymlab.recipes.problems import KeyPath, format_key_path
from gymlab.recipes.schema import Recipe
from gymlab.recipes.write import dump_yaml, file_mapping, variant_mapping
from gymlab.runs.redact import MASK, keep_secret, redact_tree, secrets_in

# Arguments of user code. Everything else is our own words and numbers, which must load back unchanged.
_FOREIGN = ("kwargs", "wrappers", "features")


def dump_redacted_recipe(recipe: Recipe) -> str:
    """`dump_recipe` for a run's folder, with secrets masked."""
    return dump_yaml({name: _masked(cast("Json", part)) for name, part in file_mapping(recipe).items()})


def _masked(tree: Json) -> Json:
    if isinstance(tree, list):
        return [_masked(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    return {key: redact_tree(value) if _foreign(key) else _masked(value) for key, value in tree.items()}


def register_variant_secrets(variant: Json) -> None:
    """Register the secrets of a variant (plain data, perhaps invalid), so that all output masks them."""
    keep_secret(secret for arguments in _arguments(variant) for secret in secrets_in(arguments))


def _arguments(tree: Json) -> Iterator[dict[str, Json]]:
    if isinstance(tree, list):
        for item in tree:
            yield from _arguments(item)
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield from [{key: value}] if _foreign(key) else _arguments(value)


def _foreign(key: str) -> bool:
    return key in _FOREIGN or ":" in str(key)  # a user's algorithm, by reference


def require_secrets(recipe: Recipe) -> None:
    """Raise UserError if a run's recipe holds a masked value: nothing can be built from it."""
    masked = [format_key_path(path) for path in _masks(variant_mapping(recipe))]
    if masked:
        key = masked[0].partition("[")[0]
        raise UserError(
            f"{', '.join(masked)}: a secret, which the run does not store: pass it again, gymlab resume RUN {key}=VALUE"
        )


def _masks(value: Json, path: KeyPath = ()) -> Iterator[KeyPath]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _masks(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _masks(item, (*path, index))
    elif isinstance(value, str) and MASK in value:
        yield path


def redact_changes(changes: Iterable[Change]) -> list[Change]:
    """Differences between two recipes with secrets masked; one that only restores a masked secret is dropped."""
    redacted = [(path, _redacted(path, old), _redacted(path, new)) for path, old, new in changes]
    return [(path, old, new) for path, old, new in redacted if old != new]


def _redacted(path: str, value: Json) -> Json:
    return redact_tree({_leaf(path): value})[_leaf(path)]


def _leaf(path: str) -> str:
    return path.rpartition(".")[2]
