"""The arguments A and B of `gymlab compare`: a group, runs, or a recipe with overrides, as jobs to train and score."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gymlab.campaigns.benchmark_table.seeded_recipe import seed_recipe
from gymlab.campaigns.scored_runs import ScoredRun
from gymlab.core.errors import FormatError, UserError, suggestion
from gymlab.runs.paths import RunPaths, run_paths
from gymlab.runs.registry import Registry
from gymlab.runs.selection import select_run

GROUP = "group:"


class SideJobs(NamedTuple):
    """One side of a comparison before its runs are trained and scored."""

    label: str
    jobs: tuple[ScoredRun, ...]


class CompareOptions(NamedTuple):
    """How recipes are trained and runs are scored."""

    seeds: Sequence[int]
    episodes: int
    full_budget: bool
    sets: Sequence[str] = ()  # overrides of both sides
    budget: str | None = None


def parse_side(text: str, runs_root: Path, options: CompareOptions, base: str | None = None) -> SideJobs:
    """`group:NAME`, `RUN[,RUN ...]`, `ENV[:VARIANT] [key=value ...]`, or `key=value ...` alone: `base` with changes."""
    if text.startswith(GROUP):
        return _run_jobs(text, _group_runs(text.removeprefix(GROUP), runs_root), options)
    words = _split(text)
    if "=" in words[0] and base is not None:
        return _recipe_jobs([*_split(base), *words], runs_root, options)
    try:
        return _run_jobs(text, [select_run(part, runs_root) for part in text.split(",")], options)
    except FormatError:
        raise
    except UserError as no_run:
        if text.startswith("@") or ("," in text and words == [text]):  # not an override, whose value may contain commas
            raise
        try:
            return _recipe_jobs(words, runs_root, options)
        except UserError as no_recipe:
            if "unknown environment" in str(no_recipe):
                raise UserError(f"'{text}' is neither a run nor a recipe: {no_run}; {no_recipe}") from no_recipe
            raise


def _recipe_jobs(words: list[str], runs_root: Path, options: CompareOptions) -> SideJobs:
    reference, *overrides = words
    every = seed_recipe(
        reference, [*overrides, *options.sets], options.seeds, budget=options.budget, full_budget=options.full_budget
    )
    jobs = tuple(ScoredRun(run_paths(runs_root, each.run_id), each, options.episodes, "compare") for each in every)
    return SideJobs(" ".join([every[0].recipe.name, *overrides]), jobs)


def _run_jobs(label: str, found: list[RunPaths], options: CompareOptions) -> SideJobs:
    return SideJobs(label, tuple(ScoredRun(paths, None, options.episodes) for paths in found))


def _group_runs(name: str, runs_root: Path) -> list[RunPaths]:
    entries = Registry(runs_root).runs()
    found = [run_paths(runs_root, entry["id"]) for entry in entries if entry.get("group") == name]
    if not found:
        known = {str(entry["group"]) for entry in entries if entry.get("group")}
        hint = suggestion(name, known) if known else "no run has a group (gymlab train --group NAME)"
        raise UserError(f"no run of group '{name}': {hint}")
    return found


def _split(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(f"{text!r}: {error}") from None
    if not words:
        raise UserError("one side of the comparison is empty: name a recipe, runs or group:NAME")
    return words
