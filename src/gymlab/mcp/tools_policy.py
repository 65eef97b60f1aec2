"""Tools that run or judge a policy: evaluate, episode, frames, diagnose, suggest_next."""

from __future__ import annotations

import base64
import csv
import json
import shlex
import tempfile
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from gymlab.core.errors import UserError
from gymlab.mcp.answers import (
    DiagnosisAnswer,
    EpisodeAnswer,
    EvaluationAnswer,
    FindingEntry,
    FramesAnswer,
    SuggestionAnswer,
)
from gymlab.mcp.arguments import Checkpoint, Run
from gymlab.mcp.commands import gymlab, gymlab_json
from gymlab.mcp.config import ServerConfig
from gymlab.mcp.status import number
from gymlab.mcp.tool_adapter import Picture
from gymlab.runs.paths import RunPaths
from gymlab.runs.videos import best_clip, scan

Seed = Annotated[int | None, Field(ge=0, le=2**31 - 1)]
_COLUMNS = ("step", "observation", "action", "label", "reward", "return_so_far", "value", "probabilities")
_MAX_WIDTH = 320  # pixels of a frame that is sent


def evaluate(
    config: ServerConfig,
    run: Checkpoint,
    episodes: Annotated[int, Field(ge=1, le=200)] = 20,
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 7,
) -> EvaluationAnswer:
    """Score a checkpoint on fresh episodes of the real environment: mean, std, 95 % interval, greedy and sampled."""
    paths, which = config.checkpoint(run)
    found = gymlab_json(config, "eval", f"{paths.run_id}/{which}", "--episodes", str(episodes), "--seed", str(seed))
    columns = ("mean", "std", "n", "low", "high", "iqm", "length", "truncated")
    results = {way: {key: number(part.get(key)) for key in columns} for way, part in found["eval"].items()}
    return EvaluationAnswer(run_id=found["run_id"], checkpoint=found["checkpoint"], results=results)


def episode(
    config: ServerConfig,
    run: Checkpoint,
    seed: Seed = None,
    sampled: Annotated[bool, Field(description="Actions drawn from the policy, not the likeliest.")] = False,
    rows: Annotated[int, Field(ge=0, le=40)] = 6,
) -> EpisodeAnswer:
    """Play one episode: length, return, how often each action was taken, and some steps of it evenly spaced."""
    paths, which = config.checkpoint(run)
    with tempfile.TemporaryDirectory(prefix="gymlab-episode-") as folder:
        target = Path(folder) / "episode.csv"
        words = [*(["--seed", str(seed)] if seed is not None else []), *(["--sampled"] if sampled else [])]
        gymlab(config, "export", f"{paths.run_id}/{which}", "--table", str(target), *words)
        with target.open(encoding="utf-8", newline="") as file:
            steps = list(csv.DictReader(file))
    if not steps:
        raise UserError(f"run '{paths.run_id}': the episode has no step")
    rewards = [float(step["reward"]) for step in steps]
    shown = [name for name in _COLUMNS if name in steps[0]]
    places = sorted({round(i * (len(steps) - 1) / max(1, rows - 1)) for i in range(rows)})
    return EpisodeAnswer(
        run_id=paths.run_id,
        checkpoint=which,
        seed=seed,
        steps=len(steps),
        total_return=sum(rewards),
        actions=dict(Counter(step.get("label") or step["action"] for step in steps).most_common(20)),
        rewards={"lowest": min(rewards), "mean": sum(rewards) / len(rewards), "highest": max(rewards)},
        columns=shown,
        rows=[[_abbreviated(steps[place][name]) for name in shown] for place in places],
    )


def frames(
    config: ServerConfig,
    run: Checkpoint,
    count: Annotated[int, Field(ge=1, le=6)] = 3,
    seed: Seed = None,
) -> FramesAnswer:
    """Pictures of an episode of a checkpoint, evenly spaced: from its film, or filmed now. Needs gymlab[video]."""
    from gymlab.media.camera import why_no_film
    from gymlab.media.video_file import read_frames

    if why := why_no_film():
        raise UserError(why)
    paths, which = config.checkpoint(run)
    with tempfile.TemporaryDirectory(prefix="gymlab-film-") as folder:
        film = _find_or_record_film(config, paths, which, seed, Path(folder))
        pictures = list(read_frames(film))
    places = sorted({round(i * (len(pictures) - 1) / max(1, count - 1)) for i in range(count)})
    small = [_downscaled(pictures[place]) for place in places]
    answer = FramesAnswer(
        run_id=paths.run_id,
        checkpoint=which,
        frames=len(pictures),
        at=places,
        size=[small[0].shape[1], small[0].shape[0]],
    )
    return Picture(answer, [_png(picture) for picture in small])  # type: ignore[return-value]


def diagnose(config: ServerConfig, run: Run) -> DiagnosisAnswer:
    """What is wrong with a run: findings by weight, each with its evidence and advice, causes before effects."""
    from gymlab.diagnosis.examine import examine, verdict
    from gymlab.diagnosis.page import evidence_text, next_command

    found = examine(config.run(run))
    remedy = found.remedy
    findings = [
        FindingEntry(
            id=finding.id,
            severity=finding.severity,
            title=finding.title,
            evidence=evidence_text(finding),
            advice=finding.advice,
            overrides=finding.overrides,
            explains=list(finding.explains),
        )
        for finding in found.findings[:6]
    ]
    return DiagnosisAnswer(
        run_id=found.facts.run_id,
        verdict=verdict(found),
        solved=found.solved,
        findings=findings,
        remedy=None if remedy is None else {"finding": remedy.id, "overrides": remedy.overrides},
        next=next_command(found),
    )


def suggest_next(config: ServerConfig, run: Run) -> SuggestionAnswer:
    """What to try next for a run, as a recipe and overrides that start_training takes."""
    from gymlab.diagnosis.examine import examine, verdict
    from gymlab.diagnosis.page import next_command

    found = examine(config.run(run))
    remedy = found.remedy
    facts = found.facts
    if remedy is None:
        return SuggestionAnswer(run_id=facts.run_id, why=verdict(found), command=next_command(found))
    overrides = [
        f"{key}={_format_value(value)}" for key, value in {**_started_overrides(facts), **remedy.overrides}.items()
    ]
    return SuggestionAnswer(
        run_id=facts.run_id,
        why=f"{remedy.id}: {remedy.evidence}. {remedy.advice}",
        recipe=facts.name,
        overrides=overrides,
        command=shlex.join(["gymlab", "train", facts.name, *overrides]),
    )


def _started_overrides(facts: Any) -> dict[str, Any]:
    """The overrides of the run's own command, so that the suggestion changes the remedy's settings only."""
    words = facts.manifest.get("command") or []
    pairs = [word.partition("=") for word in words[2:] if "=" in word and not word.startswith("-")]
    short = {key.rpartition(".")[2]: key for key in facts.settings}
    return {short.get(key, key) if "." not in key else key: value for key, _, value in pairs}


def _find_or_record_film(config: ServerConfig, paths: RunPaths, which: str, seed: int | None, folder: Path) -> Path:
    known = best_clip(paths) if which == "best" else None
    if known is None and which.isdigit():
        known = next((clip for clip in scan(paths) if str(clip.env_steps) == which), None)
    if known is not None and seed is None:
        return known.path
    target = folder / "episode.mp4"
    options = ["--record", str(target), "--seed", str(seed or 0), "--fps", "1000"]
    gymlab(config, "play", f"{paths.run_id}/{which}", *options)
    if not target.is_file():
        raise UserError(f"run '{paths.run_id}': its environment cannot be filmed")
    return target


def _downscaled(picture: Any) -> Any:
    step = -(-picture.shape[1] // _MAX_WIDTH)
    return picture[::step, ::step]


def _png(picture: Any) -> str:
    import av
    import numpy as np

    encoder = av.CodecContext.create("png", "w")
    height, width = picture.shape[:2]
    encoder.width = width
    encoder.height = height
    encoder.pix_fmt = "rgb24"
    encoder.time_base = Fraction(1)
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
    packets = [*encoder.encode(frame), *encoder.encode(None)]
    return base64.b64encode(b"".join(bytes(packet) for packet in packets)).decode()


def _format_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _abbreviated(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
