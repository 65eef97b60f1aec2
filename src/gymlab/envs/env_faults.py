"""Environments that fail: what is told about it, and how often a run goes on all the same."""

from __future__ import annotations

import logging
import re
import traceback
from collections import deque
from typing import NamedTuple

from gymlab.core.errors import RunError
from gymlab.core.rng import episode_seed
from gymlab.core.types import Array
from gymlab.envs.step_buffer import BadObservation

log = logging.getLogger(__name__)

MOST_RESTARTS = 20
WINDOW_ENV_STEPS = 1000  # this many restarts within this many env steps: restarting does not help


class Fault(NamedTuple):
    """One failure of one env or env process."""

    env: int  # the first of them, where a process holds several
    kind: str  # each kind is told once
    text: str


class EnvFault(RunError):
    """A fault that ends the run."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.text)
        self.fault = fault


class Hung(BaseException):
    """Raised inside an env that does not come back; no `except Exception` of its author may swallow it."""


class Place(NamedTuple):
    """What an env was doing."""

    env: int
    name: str
    episode: int
    seed: int
    step: int | None = None  # None at its reset
    action: object = None

    def __str__(self) -> str:
        at = "at its reset" if self.step is None else f"at step {self.step} with action {self.action}"
        return f"in episode {self.episode} (seed {self.seed}) {at}"


class EpisodeSeeds(NamedTuple):
    """Which seed each episode of each env has."""

    name: str
    run_seed: int
    evaluation: bool

    def seed(self, env: int, episode: int) -> int:
        return episode_seed(self.run_seed, env, episode, evaluation=self.evaluation)

    def place(self, env: int, episode: int, elapsed: int, action: Array | None) -> Place:
        """What an env is doing after `elapsed` steps: the next one, or its reset where there is no action."""
        message = Place(env, self.name, episode, self.seed(env, episode))
        return message if action is None else message._replace(step=int(elapsed) + 1, action=action.tolist())


def describe_fault(place: Place, error: BaseException, ours: str) -> Fault:
    """An env's fault with the traceback from inside; frames of the file `ours` that lead there are left out."""
    if isinstance(error, BadObservation):
        kind = re.split(r"[:(\[]", str(error), maxsplit=1)[0]
        message = str(error)
    else:
        kind = f"{type(error).__name__} {'in a reset' if place.step is None else 'in a step'}"
        what = "it hangs" if isinstance(error, Hung) else f"{type(error).__name__}: {error}"
        message = f"{what}\n{_inside(error, ours)}"
    return Fault(
        place.env,
        kind,
        f"env {place.env} ({place.name}) failed {place}: {message}\nFind out more with: gymlab envs check {place.name}",
    )


def _inside(error: BaseException, ours: str) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == ours:
        trace = trace.tb_next
    if isinstance(error, Hung):  # its last frame is the signal handler's, and the exception itself says nothing
        frames = traceback.extract_tb(trace)[:-1]
        return "".join(["Traceback (most recent call last):\n", *traceback.format_list(frames)]).rstrip()
    return "".join(traceback.format_exception(type(error), error, trace)).rstrip()


class Restarts:
    """Counts the faults an engine went on from, tells each kind once, and ends the run where they come too thick."""

    def __init__(self) -> None:
        self.count = 0  # since the run's first step
        self.env_steps = 0  # of this engine
        self._recent: deque[int] = deque(maxlen=MOST_RESTARTS)
        self._logged: set[str] = set()

    def add(self, fault: Fault) -> None:
        """One more; RunError where there were too many of late."""
        self.count += 1
        self._recent.append(self.env_steps)
        if len(self._recent) == MOST_RESTARTS and self.env_steps - self._recent[0] < WINDOW_ENV_STEPS:
            raise RunError(
                f"{fault.text}\nEnvs were restarted {MOST_RESTARTS} times within {WINDOW_ENV_STEPS} env steps: "
                "restarting does not help, so the run stops"
            )
        if fault.kind not in self._logged:
            self._logged.add(fault.kind)
            log.warning("%s\nRestarted. More of this kind are counted in env/restarts and not told.", fault.text)
