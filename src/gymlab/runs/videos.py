"""Recorded videos of a run: `videos/<env_steps>-<kind>.mp4`, each with a JSON file that describes it.

The JSON file is written first, so a video under its final name always has one.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gymlab.core.errors import RunError
from gymlab.runs import files
from gymlab.runs.checkpoints import read_index
from gymlab.runs.paths import RunPaths

_NAME = re.compile(r"(?P<steps>0|[1-9][0-9]{0,18})-(?P<kind>[a-z]+)\.mp4")


class Clip(NamedTuple):
    """A video with its description."""

    path: Path
    env_steps: int
    kinds: tuple[str, ...]  # first, best, final, evaluation
    about: Mapping[str, Any]

    @property
    def sidecar(self) -> Path:
        return self.path.with_suffix(".json")


def clip_path(paths: RunPaths, env_steps: int, kind: str) -> Path:
    return paths.videos / f"{env_steps}-{kind}.mp4"


def table_path(paths: RunPaths, env_steps: int) -> Path:
    """The step table of the episode in a checkpoint's video."""
    return paths.rollouts / f"{env_steps}.csv"


def scan(paths: RunPaths) -> list[Clip]:
    """All complete videos, by step. Damaged and foreign files are skipped."""
    found = []
    with contextlib.suppress(OSError, RunError):
        for path in sorted(paths.inside(paths.videos).iterdir()):
            clip = _read(path)
            if clip is not None:
                found.append(clip)
    return sorted(found, key=lambda clip: (clip.env_steps, clip.path.name))


def _read(path: Path) -> Clip | None:
    named = _NAME.fullmatch(path.name)
    if named is None or not path.is_file() or path.is_symlink():
        return None
    with contextlib.suppress(OSError, RunError, KeyError, TypeError, ValueError):
        about = files.read_json(path.with_suffix(".json"))
        if int(about["env_steps"]) == int(named["steps"]):
            return Clip(path, int(named["steps"]), tuple(map(str, about["kinds"])), about)
    return None


def of_kind(clips: Iterable[Clip], kind: str) -> list[Clip]:
    return [clip for clip in clips if kind in clip.kinds]


def best_clip(paths: RunPaths) -> Clip | None:
    """The video of the best checkpoint, else the newest of an earlier best one, else the newest of all."""
    clips = scan(paths)
    best = read_index(paths)["best"]
    exact = [clip for clip in clips if str(clip.env_steps) == best]
    return next(reversed(exact or of_kind(clips, "best") or clips), None)


def add_kinds(clip: Clip, kinds: Iterable[str]) -> None:
    """Add kinds to a video's description: the best policy may also be the final one."""
    joined = tuple(dict.fromkeys([*clip.kinds, *kinds]))
    if joined != clip.kinds:
        files.write_json(clip.sidecar, {**clip.about, "kinds": list(joined)})


def remove(paths: RunPaths, clips: Iterable[Clip]) -> None:
    """Delete videos and their files; the video first, because a JSON file alone does no harm."""
    for clip in clips:
        for path in (clip.path, clip.sidecar, table_path(paths, clip.env_steps)):
            path.unlink(missing_ok=True)


def cut_clips_after(paths: RunPaths, env_steps: int) -> None:
    """Remove videos that a run resumed from here will record again, and temporary files of a killed recorder."""
    files.sweep_temp_files(paths.videos)
    files.sweep_temp_files(paths.rollouts)
    remove(paths, [clip for clip in scan(paths) if clip.env_steps > env_steps])
