"""Validation of a variant: pydantic's errors become problems with file:line and the nearest valid name."""

from __future__ import annotations

import re
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from gymlab.algorithms.settings import AlgorithmSettings
from gymlab.core.clock import Count
from gymlab.core.errors import nearest, suggestion
from gymlab.core.settings import Settings
from gymlab.core.types import JsonObject
from gymlab.recipes.keys import KEY_HINTS, foreign_key_hint
from gymlab.recipes.problems import KeyPath, Problems, format_key_path, format_value
from gymlab.recipes.schema import BLOCKS, FIELDS, AlgorithmChoice, Recipe, algorithm_names, check_rollout
from gymlab.recipes.yaml_source import Node

S = TypeVar("S", bound=Settings)

_EXPECTED = {
    "int_type": "expected a whole number",
    "int_parsing": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
    "finite_number": "expected a finite number",
    "bool_type": "expected true or false",
    "bool_parsing": "expected true or false",
    "string_type": "expected text",
    "tuple_type": "expected a list",
    "list_type": "expected a list",
    "dict_type": "expected a block of keys",
    "model_type": "expected a block of keys",
    "model_attributes_type": "expected a block of keys",
}
_BOUNDS = {
    "greater_than": ("gt", "must be above"),
    "greater_than_equal": ("ge", "must be at least"),
    "less_than": ("lt", "must be below"),
    "less_than_equal": ("le", "must be at most"),
}
_COUNT = TypeAdapter(Count)


class VariantValidator:
    """Validates one merged variant. `algorithm` and `settings` are None if the algorithm is unknown."""

    def __init__(self, node: Node, algorithm: str | None, settings: type[AlgorithmSettings] | None) -> None:
        self.node = node
        self.algorithm = algorithm
        self.settings = settings
        self.problems = Problems()

    def recipe(self, name: str) -> Recipe | None:
        """The recipe, or None with the reasons in `problems`."""
        values = {key: node.to_data() for key, node in self.node.items() if key != self.algorithm}
        values = {key: value for key, value in values.items() if value is not None or key not in BLOCKS}
        if "algorithm" in values:
            self.problems.note(
                self.node.location_of(("algorithm",)), "algorithm", f"unknown key: {KEY_HINTS['algorithm']}"
            )
        chosen = self._algorithm()
        placeholder = AlgorithmChoice(name="", settings=AlgorithmSettings())
        recipe = self.validate(Recipe, {"name": name, **values, "algorithm": placeholder}, ())
        if chosen is None:
            return None
        self._rollout(chosen.settings, values)
        if recipe is None or self.problems:
            return None
        return recipe.model_copy(update={"algorithm": chosen})

    def validate(self, model: type[S], values: object, path: KeyPath) -> S | None:
        """`values` as a model; errors are noted below `path`."""
        try:
            return model.model_validate(values)
        except ValidationError as error:
            for fault in error.errors(include_url=False):
                self._note((*path, *fault["loc"]), dict(fault))
            return None

    def _algorithm(self) -> AlgorithmChoice | None:
        if self.algorithm is None or self.settings is None:
            return None
        block = self.node.get(self.algorithm)
        values = block.to_data() if block is not None and block.value is not None else {}
        settings = self.validate(self.settings, values, (self.algorithm,))
        return None if settings is None else AlgorithmChoice(name=self.algorithm, settings=settings)

    def _rollout(self, settings: AlgorithmSettings, values: JsonObject) -> None:
        """Check the rollout size even if other keys are invalid, so that one try reports everything."""
        if any(problem.key in ("n_envs", "n_steps") for problem in self.problems):
            return
        n_envs, n_steps = (_COUNT.validate_python(values.get(key, _default(key))) for key in ("n_envs", "n_steps"))
        try:
            check_rollout(settings, n_envs, n_steps)
        except ValueError as error:
            named = re.match(r"\w+", str(error))
            key = named[0] if named else ""
            inside = key in type(settings).model_fields
            block = self.algorithm or ""
            path: KeyPath = (block, key) if inside else (key,) if key in FIELDS else (block,)
            # The key itself if it was written, else what was written about the size of the rollout.
            places: tuple[KeyPath, ...] = (path, ("n_steps",), ("n_envs",), (block,))
            written = next((place for place in places if self.node.get(*place)), ())
            self.problems.note(self.node.location_of(written), format_key_path(path), str(error))

    def _note(self, path: KeyPath, fault: dict[str, Any]) -> None:
        kind = fault["type"]
        context = fault.get("ctx", {})
        got = fault["input"]
        if not path:
            return  # Recipe's own check of the rollout, which `_rollout` reports with its line
        if kind == "extra_forbidden":
            text = f"unknown key: {self._nearest(path)}"
        elif kind == "missing":
            text = "missing: name a Gymnasium id, module:Class or ./file.py:Class" if path[-1] == "id" else "missing"
        elif kind in _EXPECTED:
            text = f"{_EXPECTED[kind]}, got {format_value(got)}"
        elif kind in _BOUNDS:
            name, words = _BOUNDS[kind]
            text = f"{words} {context[name]:g}, got {format_value(got)}"
        elif kind == "literal_error":
            choices = re.findall(r"'([^']*)'", context["expected"])
            near = nearest(str(got), choices)
            hint = f"did you mean '{near}'? One of" if near else "choose one of"
            text = f"unknown choice {format_value(got)}: {hint} {', '.join(choices)}"
        else:
            message = str(context["error"]) if "error" in context else fault["msg"]
            text = message if "got " in message or repr(got) in message else f"{message}, got {format_value(got)}"
        self.problems.note(self.node.location_of(path), path, text)

    def _nearest(self, path: KeyPath) -> str:
        *above, last = path
        key = str(last)
        known = foreign_key_hint(key, self.algorithm)
        if known is not None:
            return known
        here = self._fields(tuple(above))
        elsewhere = [f"{block}.{key}" for block in (*BLOCKS, self.algorithm) if block and key in self._fields((block,))]
        if not above and elsewhere:
            return f"it belongs in a block: did you mean '{elsewhere[0]}'?"
        if above and key in FIELDS:
            return "it belongs one level up, beside this block"
        if elsewhere and not any(key.lower() == field.lower() for field in here):
            return f"did you mean '{elsewhere[0]}'?"
        return suggestion(key, here, limit=30)

    def _fields(self, path: KeyPath) -> list[str]:
        if not path:
            return ["extends", *FIELDS, *algorithm_names()]
        if path == (self.algorithm,):
            return list(self.settings.model_fields) if self.settings else []
        return list(BLOCKS[path[0]].model_fields) if len(path) == 1 and path[0] in BLOCKS else []


def _default(field: str) -> object:
    return Recipe.model_fields[field].default
