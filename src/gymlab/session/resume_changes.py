"""What of a recipe a resume cannot change, because a checkpoint's state is of that shape; named by the setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from gymlab.core.errors import RunError, UserError
from gymlab.core.types import Json
from gymlab.recipes.schema import Recipe

Changes = Sequence[tuple[str, Json, Json]]  # of the recipe: key, before, after

# What a changed value would need that no checkpoint of the run holds; the algorithm's settings by their last name.
_NEEDS = {
    "n_envs": "other env states",
    "env.id": "another environment",
    "policy.hidden": "another network",
    "policy.value_hidden": "another network",
    "policy.shared": "another network",
    "policy.encoder": "another network",
    "normalize.obs": "statistics from the first step on",
    "normalize.reward": "statistics from the first step on",
    "optimizer": "moments of another optimiser",
}
# Blocks of a recipe that do not affect what is learnt; all others may make states of another shape.
_NOT_LEARNING = ("budget", "stop", "eval", "checkpoints", "video", "metrics", "alerts")
_ENGINE = ("engine", "vectorization", "env.")  # what may choose another engine
_LIMITS = ("stop.eval_return", "stop.train_return", "stop.plateau", "stop.seconds")


def refuse_fixed(changes: Changes, algorithm: str, run_id: str) -> None:
    """UserError if a resume of the run would change what its checkpoints cannot follow."""
    refused = [
        f"{_named([(path, old, new)])} would need {needed}"
        for path, old, new in changes
        if (needed := _NEEDS.get(path.removeprefix(f"{algorithm}."))) is not None
    ]
    if refused:
        raise UserError(f"{'; '.join(refused)}: {_begin_again(run_id)}")


def refuse_other_engine(before: Mapping[str, Any], engine: str, changes: Changes, run_id: str) -> None:
    """UserError if a change of the recipe makes another engine step the envs; `before` is a saved fingerprint."""
    causes = [change for change in changes if change[0].startswith(_ENGINE)]
    if causes and before.get("engine", engine) != engine:
        needed = f"would step the envs with the {engine} engine, not with {before['engine']}"
        raise UserError(f"{_named(causes)} {needed}: {_begin_again(run_id)}")


@contextmanager
def refusing_by_setting(changes: Changes, run_id: str) -> Iterator[None]:
    """A state that does not fit after changes is refused by the names of the settings, not of a tensor."""
    try:
        yield
    except RunError as error:
        causes = [change for change in changes if affects_learning(change[0])]
        if not causes:
            raise
        raise UserError(f"{_named(causes)} does not fit the checkpoint's state: {_begin_again(run_id)}") from error


def affects_learning(path: str) -> bool:
    """Whether a setting changes what is learnt; a longer budget or another cadence does not."""
    return path.split(".", maxsplit=1)[0] not in _NOT_LEARNING


def new_limits(changes: Changes) -> list[str]:
    """The changed settings that end a run before its budget."""
    return [path for path, _, new in changes if path in _LIMITS and new is not None]


def policy_differences(before: Recipe, after: Recipe, *, shape: bool) -> list[str]:
    """Settings in which the networks of two recipes differ; `shape`: those that change their weights' shapes."""
    names = ("hidden", "value_hidden", "shared", "encoder", "exploration") if shape else ("activation",)
    pairs = [(f"policy.{name}", getattr(before.policy, name), getattr(after.policy, name)) for name in names]
    return [_named([pair]) for pair in pairs if pair[1] != pair[2]]


def _named(changes: Changes) -> str:
    return "; ".join(f"{path}: {_value(old)} -> {_value(new)}" for path, old, new in changes)


def _value(value: Any) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)


def _begin_again(run_id: str) -> str:
    return f"begin again with --init-from {run_id}"
