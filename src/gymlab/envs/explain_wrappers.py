"""Explanations of wrappers: a source of `gymlab explain`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable

from pydantic import BaseModel

from gymlab.core.explanation import Explanation
from gymlab.envs.wrappers import WRAPPERS, is_transform, load_wrapper


def names() -> list[str]:
    """All wrappers by name."""
    return list(WRAPPERS)


def explain(name: str) -> list[Explanation]:
    """What a wrapper does, from its module's docstring and its arguments."""
    if name not in WRAPPERS:
        return []
    wrapper = load_wrapper(name)
    written = sys.modules[wrapper.__module__].__doc__ or ""
    facts = {
        "more": " ".join((wrapper.__doc__ or "").split()),
        "acts on": "the steps of all envs, on any engine" if is_transform(wrapper) else "each env: needs a host engine",
        "evaluation": "left out unless in_evaluation: true" if getattr(wrapper, "training_only", False) else "the same",
        **{f"argument {key}": text for key, text in _arguments(wrapper).items()},
        "set it": f"env: {{wrappers: [{name}]}} in a recipe",
    }
    return [Explanation(name, "wrapper", " ".join(written.split()), {key: fact for key, fact in facts.items() if fact})]


def _arguments(wrapper: Callable[..., object]) -> dict[str, str]:
    if isinstance(wrapper, type) and issubclass(wrapper, BaseModel):
        return {key: _describe(info.description, info.default) for key, info in wrapper.model_fields.items()}
    parameters = list(inspect.signature(wrapper).parameters.values())[1:]
    return {parameter.name: _describe("", parameter.default) for parameter in parameters}


def _describe(help_text: str | None, default: object) -> str:
    needed = default is inspect.Parameter.empty or repr(default) == "PydanticUndefined"
    return f"{' '.join((help_text or '').split())} ({'required' if needed else f'default {default!r}'})".strip()
