"""What a user means by one side of a comparison: a group, runs, or a recipe with overrides."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gymlab.campaigns.benchmark_table.trial import trials
from gymlab.campaigns.executors.processes import Job
from gymlab.core.errors import UserError, suggestion
from gymlab.runs.paths import RunPaths, run_paths
from gymlab.runs.registry import Registry
from gymlab.runs.selection import select_run

GROUP = "group:"


class Asked(NamedTuple):
    """A side as it was asked for, with the runs it consists of."""

    label: str
    jobs: tuple[Job, ...]


class Manner(NamedTuple):
    """How recipes are trained."""

    seeds: Sequence[int]
    episodes: int
    full_budget: bool
    sets: Sequence[str] = ()  # overrides of both sides
    budget: str | None = None


def side(text: str, runs_root: Path, how: Manner, base: str | None = None) -> Asked:
    """`group:NAME`, `RUN[,RUN ...]`, or `ENV[:VARIANT] [key=value ...]`; only `key=value ...` is a change of `base`."""
    if text.startswith(GROUP):
        return _runs(text, _of_group(text.removeprefix(GROUP), runs_root), how)
    words = _split(text)
    if "=" in words[0] and base is not None:
        return _recipe([*_split(base), *words], runs_root, how)
    try:
        return _runs(text, [select_run(part, runs_root) for part in text.split(",")], how)
    except UserError as no_run:
        if text.startswith("@") or ("," in text and words == [text]):  # no override, whose value may be a list
            raise
        try:
            return _recipe(words, runs_root, how)
        except UserError as no_recipe:
            if "unknown environment" in str(no_recipe):
                raise UserError(f"'{text}' is neither a run nor a recipe: {no_run}; {no_recipe}") from no_recipe
            raise


def _recipe(words: list[str], runs_root: Path, how: Manner) -> Asked:
    reference, *overrides = words
    every = trials(reference, [*overrides, *how.sets], how.seeds, budget=how.budget, full_budget=how.full_budget)
    jobs = tuple(Job(run_paths(runs_root, trial.run_id), trial, how.episodes, "compare") for trial in every)
    return Asked(" ".join([every[0].recipe.name, *overrides]), jobs)


def _runs(label: str, found: list[RunPaths], how: Manner) -> Asked:
    return Asked(label, tuple(Job(paths, None, how.episodes) for paths in found))


def _of_group(name: str, runs_root: Path) -> list[RunPaths]:
    entries = Registry(runs_root).runs()
    found = [run_paths(runs_root, entry["id"]) for entry in entries if entry.get("group") == name]
    if not found:
        known = {str(entry["group"]) for entry in entries if entry.get("group")}
        told = suggestion(name, known) if known else "no run has a group (gymlab train --group NAME)"
        raise UserError(f"no run of group '{name}': {told}")
    return found


def _split(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(f"{text!r}: {error}") from None
    if not words:
        raise UserError("one side of the comparison is empty: name a recipe, runs or group:NAME")
    return words
