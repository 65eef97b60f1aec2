"""Secrets in a recipe: masked in what a run keeps, and asked for again where they are needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gymlab.core.errors import UserError
from gymlab.recipes.overrides import Change
from gymlab.recipes.problems import KeyPath, dotted
from gymlab.recipes.schema import Recipe
from gymlab.recipes.yaml_writer import file_mapping, variant_mapping, written
from gymlab.runs.redact import MASK, keep_secret, redact_tree, secrets_in

# Arguments of other people's code. All else are words and numbers of ours, which must load again as they are.
_FOREIGN = ("kwargs", "wrappers", "features")


def kept_recipe(recipe: Recipe) -> str:
    """`dump_recipe` for a run's folder: equal to it but for the secrets."""
    return written(_masked(file_mapping(recipe)))


def _masked(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_masked(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    return {key: redact_tree(value) if _foreign(key) else _masked(value) for key, value in tree.items()}


def keep_variant_secret(variant: Any) -> None:
    """From here on the secrets of a variant (plain data, perhaps broken) are masked wherever they turn up."""
    keep_secret(secret for arguments in _arguments(variant) for secret in secrets_in(arguments))


def _arguments(tree: Any) -> Iterator[dict[Any, Any]]:
    if isinstance(tree, list):
        for item in tree:
            yield from _arguments(item)
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield from [{key: value}] if _foreign(key) else _arguments(value)


def _foreign(key: Any) -> bool:
    return key in _FOREIGN or ":" in str(key)  # an algorithm of the user's, by reference


def require_secrets(recipe: Recipe) -> None:
    """UserError where a run's recipe holds a masked value: nothing can be built from it."""
    masked = [dotted(path) for path in _masks(variant_mapping(recipe))]
    if masked:
        key = masked[0].partition("[")[0]
        raise UserError(
            f"{', '.join(masked)}: a secret, which the run does not keep: give it again, gymlab resume RUN {key}=VALUE"
        )


def _masks(value: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _masks(item, (*path, key))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _masks(item, (*path, place))
    elif isinstance(value, str) and MASK in value:
        yield path


def shown_changes(changes: Iterable[Change]) -> list[Change]:
    """Differences between two recipes without their secrets; one that only puts a masked secret back is none."""
    shown = [(path, *(redact_tree({_leaf(path): value})[_leaf(path)] for value in pair)) for path, *pair in changes]
    return [(path, old, new) for path, old, new in shown if old != new]


def _leaf(path: str) -> str:
    return path.rpartition(".")[2]
