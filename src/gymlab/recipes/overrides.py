"""`key=value` on the command line or in gymlab.toml: a unique leaf name, or the full dotted path."""

from __future__ import annotations

from collections.abc import Iterable

from gymlab.algorithms.settings import AlgorithmSettings
from gymlab.core.errors import suggestion
from gymlab.core.types import Json
from gymlab.recipes.inherit import FindSettings, merge_variant
from gymlab.recipes.keys import flat_settings, foreign_key_hint
from gymlab.recipes.problems import COMMAND_LINE, KeyPath, Location, Problems, format_value
from gymlab.recipes.schema import BLOCKS, FIELDS, Recipe, algorithm_names
from gymlab.recipes.yaml_source import Node, read_value

Change = tuple[str, Json, Json]  # path, old, new


class Overrides:
    """Applies `key=value` texts to a variant whose algorithm is known."""

    def __init__(
        self,
        algorithm: str,
        settings: type[AlgorithmSettings] | None,
        find_settings: FindSettings,
        location: Location = COMMAND_LINE,
    ) -> None:
        self.location = location
        self.algorithm = algorithm
        self.settings = settings
        self.find_settings = find_settings
        self.problems = Problems()

    def apply(self, variant: Node, texts: Iterable[str]) -> Node:
        """The variant with every override merged in; faults are in `problems`."""
        for text in texts:
            key, equals, written = text.partition("=")
            key = key.strip()
            if not equals or not key:
                self.problems.note(self.location, "", f"expected key=value, got {format_value(text)}")
                continue
            path = self.path(key)
            if path is None:
                continue
            value = read_value(written, self.location, key, self.problems)
            if value is None:
                continue
            variant = merge_variant(variant, _nested(path, value, self.location), self.find_settings, self.problems)
        return variant

    def path(self, key: str) -> KeyPath | None:
        """The path of a key, or None after noting a problem."""
        bare = key.removesuffix("+")
        plus = key[len(bare) :]
        if bare in FIELDS or bare == self.algorithm:
            return (key,)
        found = self.leaves().get(bare, [])
        if len(found) == 1 and bare != "seed":
            return (*found[0][:-1], found[0][-1] + plus)
        if len(found) > 1:
            listed = ", ".join(".".join(path) for path in found)
            self.problems.note(self.location, key, f"ambiguous: write one of {listed}")
            return None
        if bare.startswith(f"{self.algorithm}."):
            return (self.algorithm, bare.removeprefix(f"{self.algorithm}.") + plus)
        block, _, rest = bare.partition(".")
        if rest and block in BLOCKS:
            return (block, *rest.split(".")[:-1], rest.split(".")[-1] + plus)
        self.problems.note(self.location, key, self._unknown(bare))
        return None

    def leaves(self) -> dict[str, list[tuple[str, ...]]]:
        """Every setting of the recipe by its last name."""
        paths: list[tuple[str, ...]] = [(field,) for field in FIELDS if field not in BLOCKS]
        paths += [(block, field) for block, model in BLOCKS.items() for field in model.model_fields]
        paths += [(self.algorithm, field) for field in (self.settings.model_fields if self.settings else ())]
        leaves: dict[str, list[tuple[str, ...]]] = {}
        for path in paths:
            leaves.setdefault(path[-1], []).append(path)
        return leaves

    def _unknown(self, key: str) -> str:
        block, _, rest = key.partition(".")
        if block in algorithm_names():
            ours = f"{self.algorithm}.{rest}" if rest else self.algorithm
            return f"this recipe runs {self.algorithm}, not {block}: write {ours}, or train ENV:{block}"
        known = foreign_key_hint(key, self.algorithm)
        if known is not None:
            return f"unknown key: {known}"
        leaves = self.leaves()
        full = [".".join(path) for paths in leaves.values() for path in paths]
        return f"unknown key: {suggestion(key, full if rest else [*leaves, *BLOCKS])}"


def _nested(path: KeyPath, value: Node, location: Location) -> Node:
    for key in reversed(path):
        value = Node({key: value}, location)
    return value


def diff_recipes(a: Recipe, b: Recipe) -> list[Change]:
    """The differences between two recipes as (path, old, new); a key that one of them lacks is None there."""
    before = flat_settings(a)
    after = flat_settings(b)
    keys = dict.fromkeys([*after, *before])
    return [(key, before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)]
