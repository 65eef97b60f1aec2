"""Recorded videos of a run: `videos/<env_steps>-<kind>.mp4`, each with a JSON file that describes it.

The JSON file is written first, so a video under its final name always has one. Policies still to be filmed wait in
`videos/pending/`, so whoever makes the films may be killed: the next one finds them there.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, cast

from gymlab.core.clock import Clock
from gymlab.core.errors import RunError
from gymlab.runs import files
from gymlab.runs.checkpoints import read_index
from gymlab.runs.locks import Owner, lock_holder
from gymlab.runs.manifest import checkpoint_clock
from gymlab.runs.paths import RunPaths
from gymlab.runs.records import PendingRecord, VideoRecord

MOST_FORMER_BEST = 8  # videos of policies that were the best once
KINDS = frozenset({"first", "best", "final", "evaluation"})
_POLL_SECONDS = 0.1
_NAME = re.compile(r"(?P<steps>0|[1-9][0-9]{0,18})-(?P<kind>[a-z]+)\.mp4")


class Clip(NamedTuple):
    """A video with its description."""

    path: Path
    env_steps: int
    kinds: tuple[str, ...]  # first, best, final, evaluation
    about: VideoRecord

    @property
    def sidecar(self) -> Path:
        return self.path.with_suffix(".json")


class PendingClip(NamedTuple):
    """A policy that is to be filmed: `videos/pending/<env_steps>.safetensors`, with a JSON file beside it."""

    policy: Path
    clock: Clock
    kinds: tuple[str, ...]

    def write(self) -> None:
        """Write its JSON file, at first and when the policy got another kind."""
        files.write_json(self.policy.with_suffix(".json"), {"clock": self.clock.as_json(), "kinds": self.kinds})

    def with_kinds(self, kinds: Iterable[str]) -> PendingClip:
        """With these kinds too, also on disk."""
        joined = self._replace(kinds=tuple(dict.fromkeys([*self.kinds, *kinds])))
        if joined != self:
            joined.write()
        return joined

    def remove(self) -> None:
        """It is filmed, or never will be."""
        for path in (self.policy.with_suffix(".json"), self.policy):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # others are pending
            self.policy.parent.rmdir()


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
        about = cast("VideoRecord", files.read_json(path.with_suffix(".json")))
        if int(about["env_steps"]) == int(named["steps"]):
            return Clip(path, int(named["steps"]), tuple(map(str, about["kinds"])), about)
    return None


def of_kind(clips: Iterable[Clip], kind: str) -> list[Clip]:
    return [clip for clip in clips if kind in clip.kinds]


def best_clip(paths: RunPaths) -> Clip | None:
    """The video of the best checkpoint, else the newest of an earlier best one, else the newest of all."""
    clips = scan(paths)
    best = read_index(paths)["best"]
    named_by = checkpoint_clock(paths)
    exact = [clip for clip in clips if str(clip.about.get(named_by)) == best]
    return next(reversed(exact or of_kind(clips, "best") or clips), None)


def add_pending(paths: RunPaths, policy: Path | bytes, clock: Clock, kinds: tuple[str, ...]) -> PendingClip:
    """Keep a copy of a policy that is to be filmed: checkpoints are pruned."""
    paths.inside(paths.pending_videos).mkdir(exist_ok=True)
    pending = PendingClip(paths.pending_videos / f"{clock.env_steps}.safetensors", clock, kinds)
    pending.policy.unlink(missing_ok=True)
    if isinstance(policy, bytes):
        pending.policy.write_bytes(policy)
    else:
        try:
            os.link(policy, pending.policy)
        except OSError:  # the file system has no hard links
            pending.policy.write_bytes(policy.read_bytes())
    pending.write()
    return pending


def read_pending(path: Path) -> PendingClip | None:
    """A pending policy by the path of its file; None if its JSON file is missing or damaged.

    The film's name is made of its step and its first kind, so that a stranger's run could name any file by them.
    """
    with contextlib.suppress(OSError, RunError, KeyError, TypeError, ValueError):
        about = cast("PendingRecord", files.read_json(path.with_suffix(".json")))
        clock = Clock(**about["clock"])
        kinds = tuple(map(str, about["kinds"]))
        counts = clock._replace(seconds=0)
        whole = all(type(count) is int and count >= 0 for count in counts) and isinstance(clock.seconds, int | float)
        if whole and path.name == f"{clock.env_steps}.safetensors" and kinds and set(kinds) <= KINDS:
            return PendingClip(path, clock, kinds)
    return None


def scan_pending(paths: RunPaths) -> list[PendingClip]:
    """The policies that are still to be filmed, by step."""
    with contextlib.suppress(OSError, RunError):
        found = paths.inside(paths.pending_videos).glob("*.safetensors")
        known = [clip for path in found if not path.is_symlink() and (clip := read_pending(path)) is not None]
        return sorted(known, key=lambda clip: clip.clock.env_steps)
    return []


def recorder_of(paths: RunPaths) -> Owner | None:
    """The process that makes films of this run now, also after the run has ended."""
    return lock_holder(paths.recorder_lock)


def wait_for_recorder(paths: RunPaths, seconds: float) -> bool:
    """Wait until no process makes films of this run; False if one still does after so many seconds."""
    deadline = time.monotonic() + seconds
    while recorder_of(paths) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def finish_clip(paths: RunPaths, name: str, kinds: Iterable[str]) -> None:
    """After a film was made: add kinds that its policy got meanwhile, and remove films of too many former best."""
    found = scan(paths)
    for clip in found:
        if clip.path.name == name:
            add_kinds(clip, kinds)
    spare = [clip for clip in found if {*clip.kinds} == {"best"}]
    remove(paths, spare[:-MOST_FORMER_BEST])


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
    """Remove videos, and policies to be filmed, that a run resumed from here will record again."""
    sweep(paths)
    remove(paths, [clip for clip in scan(paths) if clip.env_steps > env_steps])
    for pending in scan_pending(paths):
        if pending.clock.env_steps > env_steps:
            pending.remove()


def sweep(paths: RunPaths) -> None:
    """Remove temporary files of a killed recorder, unless another one is at work."""
    if recorder_of(paths) is None:
        for folder in (paths.videos, paths.rollouts, paths.pending_videos):
            files.sweep_temp_files(folder)
