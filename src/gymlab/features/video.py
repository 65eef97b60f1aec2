"""Video: records the first, best and final policy (`video:` of a recipe) in a child process during training.

Training never waits for it: of the policies in the queue only the newest two are kept. At the end of a run the process
gets limited time to finish. Runs of a group record only at their end, as a video keeps a core busy for a second or two.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from gymlab.core.clock import Clock
from gymlab.core.cooperative_lock import yield_lock
from gymlab.core.errors import GymlabError
from gymlab.process.child import start_worker
from gymlab.runs import files, tensors, videos
from gymlab.runs.checkpoint_folder import POLICY
from gymlab.runs.paths import RunPaths
from gymlab.training.events import Checkpointed, Control, Ended, Evaluated, Event, Feature, Promoted, Started
from gymlab.training.named_tensors import to_tensors

log = logging.getLogger(__name__)
SWITCH = "GYMLAB_VIDEO"  # "off": record no videos, whatever the recipes say
RECORDER = "gymlab.media.recorder_worker"
MOST_PENDING = 2
FINISH_SECONDS = 30.0  # a video takes one or two; on a busy machine more
HURRY_SECONDS = 0.5  # after a signal or an error
MOST_FORMER_BEST = 8  # videos of policies that were the best once

Announce = Callable[[Path, Clock], None]  # (video file, clock of its policy)


@dataclass(frozen=True)
class ClipOptions:
    """Which policies are recorded, and how."""

    clips: tuple[str, ...] = ("first", "best", "final")  # and: evaluation
    seed: int = 0  # of the evaluation whose first episode is played
    sampled: bool = False
    max_steps: int = 1000
    fps: int = 30  # at most
    at_end: bool = False  # record the first, the last best and the final policy when the run has ended


class PendingClip(NamedTuple):
    policy: Path
    clock: Clock
    kinds: tuple[str, ...]


class Video(Feature):
    """A context manager: on exit the recorder process is ended, however the run ended."""

    name = "video"

    def __init__(self, paths: RunPaths, options: ClipOptions, announce: Announce = lambda *_: None) -> None:
        self._paths = paths
        self._options = options
        self._announce = announce
        self._enabled = bool(options.clips) and os.environ.get(SWITCH, "").lower() not in ("off", "0", "no")
        self._recorder: RecorderProcess | None = None
        self._pending: deque[PendingClip] = deque()
        self._recording: PendingClip | None = None
        self.dropped = 0

    def __call__(self, event: Event, control: Control) -> None:
        if not self._enabled:
            return
        if isinstance(event, Started):
            videos.cut_clips_after(self._paths, event.clock.env_steps if event.resumed else -1)
            self._make_folders()
        elif isinstance(event, Promoted):
            self._enqueue(event.clock, event.path / POLICY, ("best",))
        elif isinstance(event, Checkpointed):
            first = ("first",) if event.clock.updates == 0 else ()
            named = {"best": "best", "last": "final"}
            self._enqueue(event.clock, event.path / POLICY, (*first, *(named[k] for k in event.kinds if k in named)))
        elif isinstance(event, Evaluated) and "evaluation" in self._options.clips:
            self._enqueue(event.clock, self._evaluated(event, control), ("evaluation",))
        elif isinstance(event, Ended):
            if self._pending and not control.interrupted:
                self._start()
            self.finish(FINISH_SECONDS, lambda: control.interrupted)
        self._poll()

    def _evaluated(self, event: Evaluated, control: Control) -> Path | bytes:
        """The policy that was evaluated: the current one or, if evaluation is asynchronous, a checkpoint's."""
        snapshot = control.snapshot()
        if snapshot.clock.updates != event.clock.updates:
            return self._paths.checkpoints / str(event.clock.env_steps) / POLICY
        return tensors.encode(to_tensors(snapshot.policy))

    def _make_folders(self) -> None:
        try:
            for folder in (self._paths.videos, self._paths.rollouts):
                self._paths.inside(folder).mkdir(exist_ok=True)
        except (OSError, GymlabError) as error:
            self._disable(str(error))
            return
        if not self._options.at_end:
            self._start()

    def _start(self) -> None:
        try:
            self._recorder = self._recorder or RecorderProcess(self._paths, self._options)
        except OSError as error:
            self._disable(str(error))

    def _enqueue(self, clock: Clock, policy: Path | bytes, kinds: tuple[str, ...]) -> None:
        """Queue a policy for the recorder; one that is queued or recorded already only gets more kinds."""
        kinds = tuple(kind for kind in kinds if kind in self._options.clips)
        if not kinds:
            return
        for place, other in enumerate(self._pending):
            if other.clock.env_steps == clock.env_steps:
                self._pending[place] = other._replace(kinds=_union(other.kinds, kinds))
                return
        if self._recording is not None and self._recording.clock.env_steps == clock.env_steps:
            self._recording = self._recording._replace(kinds=_union(self._recording.kinds, kinds))
            return
        for clip in videos.scan(self._paths):
            if clip.env_steps == clock.env_steps:
                videos.add_kinds(clip, kinds)
                return
        try:
            self._pending.append(PendingClip(self._copy_policy(policy, clock), clock, kinds))
        except OSError as error:
            log.warning("the policy at %d env_steps is not filmed: %s", clock.env_steps, error)
        while len(self._pending) > MOST_PENDING + self._options.at_end:
            spare = self._pending[int(self._options.at_end and "first" in self._pending[0].kinds)]
            self._pending.remove(spare)
            spare.policy.unlink(missing_ok=True)
            self.dropped += not self._options.at_end

    def _copy_policy(self, policy: Path | bytes, clock: Clock) -> Path:
        """Link or copy the policy to a temporary file, as checkpoints are pruned."""
        target = self._paths.videos / f".policy{files.TEMP_MARK}{clock.env_steps}"
        target.unlink(missing_ok=True)
        if isinstance(policy, bytes):
            target.write_bytes(policy)
        else:
            try:
                os.link(policy, target)
            except OSError:  # the file system has no hard links
                target.write_bytes(policy.read_bytes())
        return target

    def _poll(self) -> None:
        """Handle the recorder's replies and send it the next policy."""
        recorder = self._recorder
        while recorder is not None and (reply := recorder.next_reply()) is not None:
            self._handle_reply(reply)
            recorder = self._recorder
        if recorder is not None and self._recording is None and self._pending:
            self._recording = self._pending.popleft()
            recorder.request(self._recording)

    def _handle_reply(self, reply: dict[str, Any]) -> None:
        done = self._recording
        self._recording = None
        if "note" in reply:
            self._recording = done
            log.info("no films: %s", reply["note"])
        elif "over" in reply:
            self._recording = done
            self._disable(str(reply["over"]))
        elif done is not None:
            done.policy.unlink(missing_ok=True)
            if "failed" in reply:
                log.warning("the policy at %d env_steps is not filmed: %s", done.clock.env_steps, reply["failed"])
            elif reply["film"] is not None:
                self._finish_clip(Path(reply["film"]), done)

    def _finish_clip(self, film: Path, done: PendingClip) -> None:
        found = videos.scan(self._paths)
        for clip in found:
            if clip.path.name == film.name:
                videos.add_kinds(clip, done.kinds)
        spare = [clip for clip in found if not {"first", "final"} & {*clip.kinds}]
        videos.remove(self._paths, spare[:-MOST_FORMER_BEST])
        log.info("film of %d env_steps: %s", done.clock.env_steps, film.name)
        self._announce(self._paths.videos / film.name, done.clock)

    def _disable(self, why: str) -> None:
        """Record no more videos in this run."""
        log.info("no more films: %s", why)
        self._enabled = False
        recorder = self._recorder
        self._recorder = None
        if recorder is not None:
            recorder.kill()
        for clip in [*self._pending, *([self._recording] if self._recording else [])]:
            clip.policy.unlink(missing_ok=True)
            self.dropped += 1
        self._pending.clear()
        self._recording = None

    def finish(self, seconds: float, hurried: Callable[[], bool] = lambda: False) -> None:
        """Let the recorder finish its queue, for a limited time, and end it."""
        if not self._enabled:
            return
        began = time.monotonic()
        self._poll()
        while self._recorder is not None and (self._recording or self._pending):
            left = began + (min(seconds, HURRY_SECONDS) if hurried() else seconds) - time.monotonic()
            if left <= 0:
                break
            if (reply := self._recorder.next_reply(min(left, 0.1))) is not None:
                self._handle_reply(reply)
                self._poll()
        if self._recording or self._pending:
            self._disable("there was no time for them: `gymlab video` makes one")
        if self._recorder is not None:
            self._recorder.kill()
            self._recorder = None
        for folder in (self._paths.videos, self._paths.rollouts):
            files.sweep_temp_files(folder)
        if self.dropped:
            log.info("%d policies were not filmed: recording took longer than training", self.dropped)
            self.dropped = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self.finish(HURRY_SECONDS if error is not None else FINISH_SECONDS)


def _union(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*one, *other]))


class RecorderProcess:
    """The worker process that plays and records episodes. It exits with its parent."""

    def __init__(self, paths: RunPaths, options: ClipOptions) -> None:
        self._replies: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._child = start_worker(
            RECORDER,
            self._on_line,
            environ={"JAX_PLATFORMS": "cpu"},
            stderr="null",
            session="own",  # a signal is for the run, which decides when to stop
        )
        self._child.send(json.dumps({"run": str(paths.root.resolve()), **asdict(options)}))

    @property
    def pid(self) -> int:
        return self._child.pid

    def request(self, clip: PendingClip) -> None:
        """Request a video; `next_reply` tells if the process has ended."""
        request = {"policy": str(clip.policy.resolve()), "clock": clip.clock._asdict(), "kinds": clip.kinds}
        self._child.send(json.dumps(request))

    def next_reply(self, seconds: float = 0.0) -> dict[str, Any] | None:
        """The next reply, if there is one (within so many seconds)."""
        with contextlib.suppress(queue.Empty):
            if seconds <= 0:
                return self._replies.get_nowait()
            with yield_lock():
                return self._replies.get(timeout=seconds)
        return None

    def kill(self) -> None:
        self._child.end()

    def _on_line(self, line: str | None) -> None:
        if line is None:
            self._replies.put({"over": "the recorder has ended"})
            return
        try:
            self._replies.put(json.loads(line))
        except ValueError:
            self._replies.put({"over": "the recorder sent a reply that is not JSON"})
