"""Films of the policy at its first, best and final checkpoint, made by a process of its own while training goes on.

Training never waits for it: of the policies that wait to be filmed the newest two are kept. At the end of a run it
gets a little time to finish. Members of a group are filmed at their end alone: a film takes a core for a second or two,
and each has a member to train.
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
OFF = "GYMLAB_VIDEO"  # "off": no films, whatever the recipes say
RECORDER = "gymlab.media.recorder_worker"
MOST_WAITING = 2
FINISH_SECONDS = 30.0  # a film takes one or two; on a busy machine more
HURRY_SECONDS = 0.5  # after a signal or an error
KEPT = 8  # films of policies that were the best once

Announce = Callable[[Path, Clock], None]  # a film, and the clocks of the policy in it


@dataclass(frozen=True)
class Filming:
    """What is filmed."""

    clips: tuple[str, ...] = ("first", "best", "final")  # and: evaluation
    seed: int = 0  # of the evaluation whose first episode is played
    sampled: bool = False
    max_steps: int = 1000
    fps: int = 30  # at most
    at_end: bool = False  # the first, the last best and the final policy, when the run is over


class Waiting(NamedTuple):
    policy: Path
    clock: Clock
    kinds: tuple[str, ...]


class Video(Feature):
    """To be left when the run is over, however it ended."""

    name = "video"

    def __init__(self, paths: RunPaths, filming: Filming, announce: Announce = lambda *_: None) -> None:
        self._paths = paths
        self._filming = filming
        self._announce = announce
        self._on = bool(filming.clips) and os.environ.get(OFF, "").lower() not in ("off", "0", "no")
        self._recorder: Recorder | None = None
        self._waiting: deque[Waiting] = deque()
        self._at_work: Waiting | None = None
        self.dropped = 0

    def __call__(self, event: Event, control: Control) -> None:
        if not self._on:
            return
        if isinstance(event, Started):
            videos.cut_clips_after(self._paths, event.clock.env_steps if event.resumed else -1)
            self._begin()
        elif isinstance(event, Promoted):
            self._film(event.clock, event.path / POLICY, ("best",))
        elif isinstance(event, Checkpointed):
            first = ("first",) if event.clock.updates == 0 else ()
            named = {"best": "best", "last": "final"}
            self._film(event.clock, event.path / POLICY, (*first, *(named[k] for k in event.kinds if k in named)))
        elif isinstance(event, Evaluated) and "evaluation" in self._filming.clips:
            self._film(event.clock, self._evaluated(event, control), ("evaluation",))
        elif isinstance(event, Ended):
            if self._waiting and not control.interrupted:
                self._start()
            self.finish(FINISH_SECONDS, lambda: control.interrupted)
        self._look()

    def _evaluated(self, event: Evaluated, control: Control) -> Path | bytes:
        """The policy that was evaluated: training may have gone on since, and left it in a checkpoint."""
        taken = control.snapshot()
        if taken.clock.updates != event.clock.updates:
            return self._paths.checkpoints / str(event.clock.env_steps) / POLICY
        return tensors.encode(to_tensors(taken.policy))

    def _begin(self) -> None:
        try:
            for folder in (self._paths.videos, self._paths.rollouts):
                self._paths.inside(folder).mkdir(exist_ok=True)
        except (OSError, GymlabError) as error:
            self._give_up(str(error))
            return
        if not self._filming.at_end:
            self._start()

    def _start(self) -> None:
        try:
            self._recorder = self._recorder or Recorder(self._paths, self._filming)
        except OSError as error:
            self._give_up(str(error))

    def _film(self, clock: Clock, policy: Path | bytes, kinds: tuple[str, ...]) -> None:
        """Keep a policy for the recorder. One that waits already, or is filmed, is only called by another name too."""
        kinds = tuple(kind for kind in kinds if kind in self._filming.clips)
        if not kinds:
            return
        for place, other in enumerate(self._waiting):
            if other.clock.env_steps == clock.env_steps:
                self._waiting[place] = other._replace(kinds=_joined(other.kinds, kinds))
                return
        if self._at_work is not None and self._at_work.clock.env_steps == clock.env_steps:
            self._at_work = self._at_work._replace(kinds=_joined(self._at_work.kinds, kinds))
            return
        for clip in videos.scan(self._paths):
            if clip.env_steps == clock.env_steps:
                videos.add_kinds(clip, kinds)
                return
        try:
            self._waiting.append(Waiting(self._kept(policy, clock), clock, kinds))
        except OSError as error:
            log.warning("the policy at %d env_steps is not filmed: %s", clock.env_steps, error)
        while len(self._waiting) > MOST_WAITING + self._filming.at_end:
            spare = self._waiting[int(self._filming.at_end and "first" in self._waiting[0].kinds)]
            self._waiting.remove(spare)
            spare.policy.unlink(missing_ok=True)
            self.dropped += not self._filming.at_end

    def _kept(self, policy: Path | bytes, clock: Clock) -> Path:
        """The policy under a name of its own: checkpoints are pruned."""
        target = self._paths.videos / f".policy{files.TEMP_MARK}{clock.env_steps}"
        target.unlink(missing_ok=True)
        if isinstance(policy, bytes):
            target.write_bytes(policy)
        else:
            try:
                os.link(policy, target)
            except OSError:  # a file system without links
                target.write_bytes(policy.read_bytes())
        return target

    def _look(self) -> None:
        """Take what the recorder has done, and give it the next policy."""
        recorder = self._recorder
        while recorder is not None and (reply := recorder.next_reply()) is not None:
            self._on_reply(reply)
            recorder = self._recorder
        if recorder is not None and self._at_work is None and self._waiting:
            self._at_work = self._waiting.popleft()
            recorder.request(self._at_work)

    def _on_reply(self, reply: dict[str, Any]) -> None:
        done = self._at_work
        self._at_work = None
        if "note" in reply:
            self._at_work = done
            log.info("no films: %s", reply["note"])
        elif "over" in reply:
            self._at_work = done
            self._give_up(str(reply["over"]))
        elif done is not None:
            done.policy.unlink(missing_ok=True)
            if "failed" in reply:
                log.warning("the policy at %d env_steps is not filmed: %s", done.clock.env_steps, reply["failed"])
            elif reply["film"] is not None:
                self._take(Path(reply["film"]), done)

    def _take(self, film: Path, done: Waiting) -> None:
        found = videos.scan(self._paths)
        for clip in found:
            if clip.path.name == film.name:
                videos.add_kinds(clip, done.kinds)
        spare = [clip for clip in found if not {"first", "final"} & {*clip.kinds}]
        videos.remove(self._paths, spare[:-KEPT])
        log.info("film of %d env_steps: %s", done.clock.env_steps, film.name)
        self._announce(self._paths.videos / film.name, done.clock)

    def _give_up(self, why: str) -> None:
        """The run goes on without films."""
        log.info("no more films: %s", why)
        self._on = False
        recorder = self._recorder
        self._recorder = None
        if recorder is not None:
            recorder.kill()
        for left in [*self._waiting, *([self._at_work] if self._at_work else [])]:
            left.policy.unlink(missing_ok=True)
            self.dropped += 1
        self._waiting.clear()
        self._at_work = None

    def finish(self, seconds: float, hurried: Callable[[], bool] = lambda: False) -> None:
        """Let the recorder film what waits, for a limited time, and end it."""
        if not self._on:
            return
        began = time.monotonic()
        self._look()
        while self._recorder is not None and (self._at_work or self._waiting):
            left = began + (min(seconds, HURRY_SECONDS) if hurried() else seconds) - time.monotonic()
            if left <= 0:
                break
            if (reply := self._recorder.next_reply(min(left, 0.1))) is not None:
                self._on_reply(reply)
                self._look()
        if self._at_work or self._waiting:
            self._give_up("there was no time for them: `gymlab video` makes one")
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


def _joined(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*one, *other]))


class Recorder:
    """The worker process that plays and films. It exits with its parent."""

    def __init__(self, paths: RunPaths, filming: Filming) -> None:
        self._replies: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._child = start_worker(
            RECORDER,
            self._on_line,
            environ={"JAX_PLATFORMS": "cpu"},
            stderr="null",
            session="own",  # a signal is for the run, which decides when to stop
        )
        self._child.send(json.dumps({"run": str(paths.root.resolve()), **asdict(filming)}))

    @property
    def pid(self) -> int:
        return self._child.pid

    def request(self, waiting: Waiting) -> None:
        """Ask for a film; where the process has ended, `next_reply` says so."""
        policy = {"policy": str(waiting.policy.resolve()), "clock": waiting.clock._asdict(), "kinds": waiting.kinds}
        self._child.send(json.dumps(policy))

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
