"""Video: records the first, best and final policy (`video:` of a recipe) in a child process during training.

Training never waits for it: of the policies in the queue the newest two are kept, and every evaluated one where each
evaluation is to be filmed. When the run ends, the recorder either is waited for or makes the rest by itself after this
process has exited. What it does not make, because it was killed or the run was interrupted, stays in `videos/pending/`
for the resumed run or for `gymlab video`. Runs of a group record only at their end, as a video keeps a core busy for a
second or two.
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
from typing import NamedTuple, Self, TypedDict

from gymlab.core.clock import Clock
from gymlab.core.cooperative_lock import yield_lock
from gymlab.core.errors import GymlabError
from gymlab.process.child import start_worker
from gymlab.runs import tensors, videos
from gymlab.runs.checkpoint_folder import POLICY
from gymlab.runs.checkpoints import folder_of
from gymlab.runs.paths import RunPaths
from gymlab.runs.videos import PendingClip
from gymlab.training.events import Checkpointed, Control, Ended, Evaluated, Event, Feature, Promoted, Started
from gymlab.training.named_tensors import to_tensors

log = logging.getLogger(__name__)
SWITCH = "GYMLAB_VIDEO"  # "off": record no videos, whatever the recipes say
RECORDER = "gymlab.media.recorder_worker"
MOST_PENDING = 2
FILM_SECONDS = 60.0  # for each film at the end of the run; it takes one or two, on a busy machine more
HURRY_SECONDS = 0.5  # for all of them after a signal or an error

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


class FilmsAtEnd(NamedTuple):
    """What happens when a run has ended and not all of its films are made."""

    leave: bool = False  # to the recorder process, which outlives this one; else wait for them
    waiting: Callable[[int], None] = lambda _: None  # called with the number of films that are not made yet


class Video(Feature):
    """A context manager: on exit the recorder process is ended, however the run ended."""

    name = "video"

    def __init__(
        self,
        paths: RunPaths,
        options: ClipOptions,
        announce: Announce = lambda *_: None,
        at_end: FilmsAtEnd | None = None,
    ) -> None:
        self._paths = paths
        self._options = options
        self._announce = announce
        self._at_end = at_end or FilmsAtEnd()
        self._enabled = bool(options.clips) and os.environ.get(SWITCH, "").lower() not in ("off", "0", "no")
        self._recorder: RecorderProcess | None = None
        self._pending: deque[PendingClip] = deque()
        self._recording: PendingClip | None = None
        self.dropped = 0
        self.left = 0  # films that the recorder makes after the run

    def __call__(self, event: Event, control: Control) -> None:
        if not self._enabled:
            return
        if isinstance(event, Started):
            videos.cut_clips_after(self._paths, event.clock.env_steps if event.resumed else -1)
            self._make_folders()
            self._pending.extend(videos.scan_pending(self._paths))  # of an interrupted run
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
            if self._at_end.leave and not control.interrupted:
                self._leave()
            else:
                self._finish(lambda: control.interrupted)
        self._poll()

    def _evaluated(self, event: Evaluated, control: Control) -> Path | bytes:
        """The policy that was evaluated: the current one or, if evaluation is asynchronous, a checkpoint's."""
        snapshot = control.snapshot()
        if snapshot.clock.updates != event.clock.updates:
            return folder_of(self._paths, event.clock) / POLICY
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
                self._pending[place] = other.with_kinds(kinds)
                return
        if self._recording is not None and self._recording.clock.env_steps == clock.env_steps:
            self._recording = self._recording.with_kinds(kinds)
            return
        for clip in videos.scan(self._paths):
            if clip.env_steps == clock.env_steps:
                videos.add_kinds(clip, kinds)
                return
        try:
            self._pending.append(videos.add_pending(self._paths, policy, clock, kinds))
        except (OSError, GymlabError) as error:
            log.warning("the policy at %d env_steps is not filmed: %s", clock.env_steps, error)
        # Those of evaluations were asked for one by one; of the others a newer one replaces an older one.
        spare = [clip for clip in self._pending if "evaluation" not in clip.kinds]
        if len(spare) > MOST_PENDING + self._options.at_end:
            oldest = spare[int(self._options.at_end and "first" in spare[0].kinds)]
            self._pending.remove(oldest)
            oldest.remove()
            self.dropped += not self._options.at_end

    def _poll(self) -> None:
        """Handle the recorder's replies and send it the next policy."""
        recorder = self._recorder
        while recorder is not None and (reply := recorder.next_reply()) is not None:
            self._handle_reply(reply)
            recorder = self._recorder
        if recorder is not None and self._recording is None and self._pending:
            self._recording = self._pending.popleft()
            recorder.request(self._recording)

    def _handle_reply(self, reply: RecorderReply) -> None:
        done = self._recording
        self._recording = None
        if "note" in reply:
            self._recording = done
            log.info("no films: %s", reply["note"])
        elif "over" in reply:
            self._recording = done
            self._disable(str(reply["over"]))
        elif "ended" in reply:
            self._recording = done
            self._stop_filming("the recorder has ended")
        elif done is not None:
            done.remove()
            if "failed" in reply:
                log.warning("the policy at %d env_steps is not filmed: %s", done.clock.env_steps, reply["failed"])
            elif reply["film"] is not None:
                self._finish_clip(Path(reply["film"]), done)

    def _finish_clip(self, film: Path, done: PendingClip) -> None:
        videos.finish_clip(self._paths, film.name, done.kinds)
        log.info("film of %d env_steps: %s", done.clock.env_steps, film.name)
        self._announce(self._paths.videos / film.name, done.clock)

    def _disable(self, why: str) -> None:
        """Films of this run cannot be made."""
        for clip in self._unfinished():
            clip.remove()
            self.dropped += 1
        self._stop_filming(why)

    def _stop_filming(self, why: str) -> None:
        """Make no more films now. What is pending stays on disk."""
        if left := len(videos.scan_pending(self._paths)):
            why = f"{why}; `gymlab video {self._paths.run_id}` makes the {left} that are missing"
        log.info("no more films: %s", why)
        self._enabled = False
        self._end_recorder()
        self._pending.clear()
        self._recording = None

    def _end_recorder(self) -> None:
        recorder = self._recorder
        self._recorder = None
        if recorder is not None:
            recorder.kill()
        videos.sweep(self._paths)

    def _unfinished(self) -> list[PendingClip]:
        return [*([self._recording] if self._recording else []), *self._pending]

    def _leave(self) -> None:
        """Let the recorder make the rest by itself; it is not ended with this process."""
        self._poll()
        self.left = len(self._unfinished())
        if self._recorder is None or not self.left:
            self._finish(lambda: False)
            return
        for clip in self._pending:
            self._recorder.request(clip)
        self._recorder.leave()
        log.info("%d films are made by process %d", self.left, self._recorder.pid)
        self._enabled = False
        self._recorder = None

    def _finish(self, hurried: Callable[[], bool]) -> None:
        """Let the recorder finish its queue, as long as it makes progress, and end it."""
        if not self._enabled:
            return
        began = time.monotonic()
        since = began  # the last film
        left = -1
        self._poll()
        while self._recorder is not None and (unfinished := self._unfinished()):
            now = time.monotonic()
            if len(unfinished) != left and not hurried():
                left = len(unfinished)
                since = now
                self._at_end.waiting(left)
            if now >= (began + HURRY_SECONDS if hurried() else since + FILM_SECONDS):
                break
            if (reply := self._recorder.next_reply(0.1)) is not None:
                self._handle_reply(reply)
                self._poll()
        if self._unfinished():
            self._stop_filming("there was no time for them")
        self._end_recorder()
        if self.dropped:
            log.info("%d policies were not filmed: recording took longer than training", self.dropped)
            self.dropped = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._finish(lambda: error is not None)


class RecorderReply(TypedDict, total=False):
    """What the recorder says of a request; `over`: it ends; `ended`: it has."""

    note: str
    film: str | None  # its file name; None: only the trace was written
    failed: str
    over: str
    ended: bool


class RecorderProcess:
    """The worker process that plays and records episodes. It exits with its parent, unless told to `leave`."""

    def __init__(self, paths: RunPaths, options: ClipOptions) -> None:
        self._replies: queue.SimpleQueue[RecorderReply] = queue.SimpleQueue()
        self._child = start_worker(
            RECORDER,
            self._on_line,
            environ={"JAX_PLATFORMS": "cpu"},
            stderr="null",
            session="detached",  # a signal is for the run, which decides when to stop; a closed terminal ends neither
        )
        self._child.send(json.dumps({"run": str(paths.root.resolve()), **asdict(options)}))

    @property
    def pid(self) -> int:
        return self._child.pid

    def request(self, clip: PendingClip) -> None:
        """Request a video; `next_reply` tells if the process has ended."""
        self._child.send(json.dumps({"policy": str(clip.policy.resolve())}))

    def leave(self) -> None:
        """Let it serve the requests it has and exit by itself, also after this process has exited."""
        self._child.send(json.dumps({"leave": True}))
        self._child.close_stdin()
        self._child.release()

    def next_reply(self, seconds: float = 0.0) -> RecorderReply | None:
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
            self._replies.put({"ended": True})
            return
        try:
            self._replies.put(json.loads(line))
        except ValueError:
            self._replies.put({"over": "the recorder sent a reply that is not JSON"})
