"""RunRecord: the score of one run on fresh episodes, and what reproduces it. Owns the format of result.json."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from gymlab.campaigns.benchmark_table.seeded_recipe import SeededRecipe, counted_settings, fresh_seed
from gymlab.core.errors import RunError
from gymlab.recipes.keys import read_settings
from gymlab.reports.run_facts import Facts, read_facts
from gymlab.runs import files
from gymlab.runs.checkpoints import read_index
from gymlab.runs.paths import RunPaths
from gymlab.runs.status import read_status

if TYPE_CHECKING:
    from gymlab.session.evaluate_checkpoints import CheckpointScoreRecord, PooledScoreRecord

FORMAT = 1
NAME = "result.json"  # in a run's folder
_CURVE_POINTS = 200
_VERSIONS = ("gymlab", "python", "jax", "gymnasium")


class Scores(BaseModel):
    """Returns of the scoring episodes, greedy or sampled."""

    model_config = ConfigDict(frozen=True)
    mean: float
    std: float
    n: int


class RunRecord(BaseModel):
    """The fields of result.json."""

    model_config = ConfigDict(frozen=True)
    format: int = FORMAT
    recipe: str
    seed: int
    run_id: str
    checkpoint: str  # of the policy that was scored: the best by the run's own evaluations
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
        """The score that is compared with marks and other runs: the exact one in place of the greedy one if known."""
        if judged == "sampled":
            return self.sampled.mean
        return self.greedy.mean if self.exact is None else self.exact


def _scores(found: PooledScoreRecord) -> Scores:
    return Scores(mean=found["mean"], std=found["std"], n=found["n"])


def make_record(paths: RunPaths, seeded: SeededRecipe | None, evaluation: CheckpointScoreRecord) -> RunRecord:
    """The record of a finished run. `evaluation`: what `gymlab eval --json` printed."""
    facts = read_facts(paths, read_settings(paths.inside(paths.recipe)), metrics=[])
    manifest = facts.manifest
    clock = facts.clock
    score = facts.score
    seed = int(manifest["seed"])
    git = manifest.get("git")
    versions = manifest.get("versions") or {}
    dirty = "+" if git and git.get("dirty") else ""
    arguments = seeded.train_arguments() if seeded is not None else None
    episodes = int(evaluation["eval"]["greedy"]["n"])
    return RunRecord(
        recipe=facts.name,
        seed=seed,
        run_id=paths.run_id,
        checkpoint=str(evaluation["checkpoint"]),
        greedy=_scores(evaluation["eval"]["greedy"]),
        sampled=_scores(evaluation["eval"]["sampled"]),
        exact=evaluation["eval"].get("exact"),
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
        command=shlex.join(["gymlab", "train", *arguments] if arguments else map(str, manifest.get("command") or [])),
        evaluation_command=f"gymlab eval RUN/best --episodes {episodes} --seed {fresh_seed(seed)}",
        versions={name: str(versions[name]) for name in _VERSIONS if name in versions},
        commit=f"{git['commit'][:12]}{dirty}" if git and git.get("commit") else None,
        cores=(manifest.get("fingerprint") or {}).get("cores"),
        device=(manifest.get("engine") or {}).get("device"),
        settings=counted_settings(seeded.settings if seeded is not None else facts.settings),
    )


def _curve(facts: Facts) -> tuple[tuple[int, float], ...]:
    at = facts.measured.evaluations.env_steps
    returns = facts.measured.evaluations.returns
    step = max(1, -(-len(at) // _CURVE_POINTS))
    places = sorted({*range(0, len(at), step), *([len(at) - 1] if len(at) else [])})
    return tuple((int(at[place]), float(f"{returns[place]:.6g}")) for place in places)


def write_record(path: Path, record: RunRecord) -> None:
    """Atomic."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_json(path, record.model_dump(mode="json"))


def read_record(path: Path) -> RunRecord | None:
    """None if the file is missing, damaged or of another format: the record is then made again."""
    try:
        record = RunRecord.model_validate(files.read_json(path))
    except (OSError, RunError, ValidationError):
        return None
    return record if record.format == FORMAT else None


def known_record(paths: RunPaths, episodes: int) -> RunRecord | None:
    """The record in a run's folder; None if the run has trained since, or was scored on fewer episodes."""
    record = read_record(paths.root / NAME)
    if record is None or min(record.greedy.n, record.sampled.n) < episodes:
        return None
    clock = read_status(paths).get("clock")
    same = clock is not None and record.env_steps == clock.get("env_steps")
    same = same and record.checkpoint == read_index(paths).get("best")
    return record if same and record.evaluation_seed == fresh_seed(record.seed) else None
