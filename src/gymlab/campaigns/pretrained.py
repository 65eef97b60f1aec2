"""Pretrained policies: `<name>/` with policy.safetensors, recipe.yaml and about.json. No pickle.

Looked up in ./pretrained, then in the package. This module owns the format.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files as package_files
from pathlib import Path
from typing import TypedDict, cast

import numpy as np

from gymlab.campaigns.benchmark_table.record import RunRecord
from gymlab.core.errors import RunError, UserError, suggestion
from gymlab.recipes.resolve import read_run_recipe
from gymlab.recipes.schema import Recipe
from gymlab.runs import files, tensors
from gymlab.runs.checkpoints import load_checkpoint
from gymlab.runs.paths import RunPaths

POLICY = "policy.safetensors"
RECIPE = "recipe.yaml"
ABOUT = "about.json"
MOST_BYTES = 200_000
FORMAT = 1
OWN_FOLDER = Path("pretrained")


class PretrainedRecord(TypedDict, total=False):
    """A policy's JSON file."""

    format: int
    recipe: str
    env: str
    algorithm: str
    seed: int
    env_steps: int
    scores: dict[str, dict[str, float]]  # greedy and sampled
    exact: float | None
    evaluation_seed: int
    solved_at: float | None
    command: str
    versions: dict[str, str]
    commit: str | None
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Pretrained:
    """A policy in its folder."""

    path: Path
    about: PretrainedRecord

    @property
    def name(self) -> str:
        """`ENV:VARIANT`."""
        return str(self.about["recipe"])

    @property
    def env(self) -> str:
        return str(self.about["env"])

    def recipe(self) -> Recipe:
        return read_run_recipe(self.path / RECIPE)

    def tensors(self) -> dict[str, np.ndarray]:
        """The weights and the normaliser; RunError where they are not what was packed."""
        raw = files.read_bytes(self.path / POLICY, MOST_BYTES)
        if files.sha256(raw) != self.about["sha256"]:
            raise RunError(f"the policy {self.path.name} is damaged: {POLICY} does not match its hash")
        try:
            return tensors.decode(raw)
        except ValueError as error:
            raise RunError(f"the policy {self.path.name} is damaged: {error}") from error


def pretrained_policies() -> list[Pretrained]:
    """All of them, by name; one in ./pretrained replaces the package's of the same name."""
    found: dict[str, Pretrained] = {}
    for folder in (Path(str(package_files("gymlab.campaigns").joinpath("pretrained_policies"))), OWN_FOLDER):
        for path in sorted(folder.glob(f"*/{ABOUT}")) if folder.is_dir() else []:
            about = cast("PretrainedRecord", files.read_json(path))
            if (
                isinstance(about, dict)
                and about.get("format") == FORMAT
                and {"recipe", "env", "sha256"} <= about.keys()
            ):
                item = Pretrained(path.parent, about)
                found[item.name] = item
    return [found[name] for name in sorted(found)]


def find(text: str) -> Pretrained:
    """The policy of an env or of a recipe; of several the one with the highest score."""
    from gymlab.envs.registry import resolve_id

    every = pretrained_policies()
    exact = [item for item in every if item.name == text]
    if exact:
        return exact[0]
    names = {text}
    with suppress(UserError):
        names.add(resolve_id(text).id)  # an old name of the env
    fits = [item for item in every if item.env in names]
    if not fits:
        known = [*(item.env for item in every), *(item.name for item in every)]
        hint = suggestion(text, known) if known else "there is none (gymlab pretrained make RUN)"
        raise UserError(f"no pretrained policy for '{text}': {hint}")
    return max(fits, key=lambda item: float(item.about["scores"]["greedy"]["mean"]))


def pack(paths: RunPaths, record: RunRecord, into: Path) -> Pretrained:
    """Copy the policy of a record into a folder; UserError where it is too large."""
    loaded = load_checkpoint(paths, record.checkpoint, with_state=False)
    raw = tensors.encode(loaded.policy)
    if len(raw) > MOST_BYTES:
        raise UserError(f"{paths.run_id}: its policy takes {len(raw)} bytes, and a pretrained one at most {MOST_BYTES}")
    recipe = read_run_recipe(paths.inside(paths.recipe))
    slug = re.sub(r"[^A-Za-z0-9.-]+", "-", record.recipe)
    about: PretrainedRecord = {
        "format": FORMAT,
        "recipe": record.recipe,
        "env": recipe.env.id,
        "algorithm": recipe.algorithm.name,
        "seed": record.seed,
        "env_steps": loaded.info["clock"]["env_steps"],
        "scores": {mode: getattr(record, mode).model_dump() for mode in ("greedy", "sampled")},
        "exact": record.exact,
        "evaluation_seed": record.evaluation_seed,
        "solved_at": recipe.env.solved_at,
        "command": record.command,
        "versions": record.versions,
        "commit": record.commit,
        "bytes": len(raw),
        "sha256": files.sha256(raw),
    }
    folder = into / slug
    folder.mkdir(parents=True, exist_ok=True)
    files.write_bytes(folder / POLICY, raw)
    files.write_text(folder / RECIPE, paths.recipe.read_text(encoding="utf-8"))
    files.write_json(folder / ABOUT, about)  # last: without it the folder is ignored
    return Pretrained(folder, about)
