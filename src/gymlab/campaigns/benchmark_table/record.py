"""What one run came to: the file that proves it. This module owns its format."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from gymlab.campaigns.benchmark_table.trial import Trial, counted_settings, fresh_seed
from gymlab.core.errors import RunError
from gymlab.recipes.keys import read_settings
from gymlab.reports.run_facts import Facts, read_facts
from gymlab.runs import files
from gymlab.runs.checkpoints import read_index
from gymlab.runs.paths import RunPaths
from gymlab.runs.status import read_status

FORMAT = 1
NAME = "result.json"  # in a run's folder
_POINTS = 200
_VERSIONS = ("gymlab", "python", "jax", "gymnasium")


class Scores(BaseModel):
    """Returns of one way of acting."""

    model_config = ConfigDict(frozen=True)
    mean: float
    std: float
    n: int


class Record(BaseModel):
    """The result of one (recipe, seed)."""

    model_config = ConfigDict(frozen=True)
    format: int = FORMAT
    recipe: str
    seed: int
    run_id: str
    checkpoint: str  # env_steps of the policy that was scored: the best by the run's own evaluations
    greedy: Scores
    sampled: Scores
    exact: float | None = None  # the greedy policy's expected return, where the env is a transition table
    evaluation_seed: int
    status: str
    stop_reason: str
    env_steps: int
    budget: int | None
    seconds: float
    threshold: float | None
    steps_to_threshold: int | None
    auc: float | None
    horizon: int  # env steps that `auc` is over
    curve: tuple[tuple[int, float], ...]  # env_steps, mean return of the run's own evaluations
    command: str
    evaluation_command: str
    versions: dict[str, str]
    commit: str | None
    cores: int | None
    device: str | None
    settings: dict[str, Any]

    def score(self, judged: str = "greedy") -> float:
        """The number a mark is for: exact where that is known."""
        if judged == "sampled":
            return self.sampled.mean
        return self.greedy.mean if self.exact is None else self.exact


def make_record(paths: RunPaths, trial: Trial | None, said: Mapping[str, Any]) -> Record:
    """The record of a run that ended, with what `gymlab eval --json` said of it."""
    facts = read_facts(paths, read_settings(paths.inside(paths.recipe)), metrics=[])
    manifest = facts.manifest
    clock = facts.clock
    score = facts.score
    seed = int(manifest["seed"])
    git = manifest.get("git") or {}
    versions = manifest.get("versions") or {}
    dirty = "+" if git.get("dirty") else ""
    words = trial.words() if trial is not None else None
    episodes = int(said["eval"]["greedy"]["n"])
    return Record(
        recipe=facts.name,
        seed=seed,
        run_id=paths.run_id,
        checkpoint=str(said["checkpoint"]),
        **{mode: Scores(**{key: said["eval"][mode][key] for key in ("mean", "std", "n")}) for mode in _MODES},
        exact=said["eval"].get("exact"),
        evaluation_seed=fresh_seed(seed),
        status=str(facts.status.get("status")),
        stop_reason=str(facts.status.get("stop_reason")),
        env_steps=int(clock["env_steps"]),
        budget=facts.budget,
        seconds=round(float(clock["seconds"]), 1),
        threshold=score.threshold,
        steps_to_threshold=score.steps_to_threshold,
        auc=score.auc,
        horizon=score.horizon,
        curve=_curve(facts),
        command=shlex.join(["gymlab", "train", *words] if words else map(str, manifest.get("command") or [])),
        evaluation_command=f"gymlab eval RUN/best --episodes {episodes} --seed {fresh_seed(seed)}",
        versions={name: str(versions[name]) for name in _VERSIONS if name in versions},
        commit=f"{git['commit'][:12]}{dirty}" if git.get("commit") else None,
        cores=(manifest.get("fingerprint") or {}).get("cores"),
        device=(manifest.get("engine") or {}).get("device"),
        settings=counted_settings(trial.settings if trial is not None else facts.settings),
    )


_MODES = ("greedy", "sampled")


def _curve(facts: Facts) -> tuple[tuple[int, float], ...]:
    at = facts.measured.evaluations.env_steps
    returns = facts.measured.evaluations.returns
    step = max(1, -(-len(at) // _POINTS))
    places = sorted({*range(0, len(at), step), *([len(at) - 1] if len(at) else [])})
    return tuple((int(at[place]), float(f"{returns[place]:.6g}")) for place in places)


def write_record(path: Path, record: Record) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_json(path, record.model_dump(mode="json"))


def read_record(path: Path) -> Record | None:
    """The record in a file; None where there is none that can be read: it is then made again."""
    try:
        record = Record.model_validate(files.read_json(path))
    except (OSError, RunError, ValidationError):
        return None
    return record if record.format == FORMAT else None


def known_record(paths: RunPaths, episodes: int) -> Record | None:
    """What a run came to, where that was found out since it last trained, on as many episodes."""
    record = read_record(paths.root / NAME)
    if record is None or min(record.greedy.n, record.sampled.n) < episodes:
        return None
    clock = read_status(paths).get("clock") or {}
    same = record.env_steps == clock.get("env_steps") and record.checkpoint == read_index(paths).get("best")
    return record if same and record.evaluation_seed == fresh_seed(record.seed) else None
