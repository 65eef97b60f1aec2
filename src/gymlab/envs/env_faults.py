"""Env faults: exceptions, hangs and invalid observations of envs, their messages, and the limit on restarts."""

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
WINDOW_ENV_STEPS = 1000  # MOST_RESTARTS restarts within these stop the run


class Fault(NamedTuple):
    """One failure of one env or env process."""

    env: int  # the first of them, where a process holds several
    kind: str  # each kind is logged once
    text: str


class EnvFault(RunError):
    """A fault that ends the run."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.text)
        self.fault = fault


class Hung(BaseException):
    """Raised inside an env that hangs; a BaseException, so that no `except Exception` of its author catches it."""


class FaultLocation(NamedTuple):
    """Episode and step of an env when it failed."""

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
    """The seed of each episode of each env."""

    name: str
    run_seed: int
    evaluation: bool

    def seed(self, env: int, episode: int) -> int:
        return episode_seed(self.run_seed, env, episode, evaluation=self.evaluation)

    def location(self, env: int, episode: int, elapsed: int, action: Array | None) -> FaultLocation:
        """Where an env is after `elapsed` steps: in the next one, or in its reset where there is no action."""
        found = FaultLocation(env, self.name, episode, self.seed(env, episode))
        return found if action is None else found._replace(step=int(elapsed) + 1, action=action.tolist())


def describe_fault(location: FaultLocation, error: BaseException, ours: str) -> Fault:
    """The fault of an env's error, with its traceback; the leading frames of our own file `ours` are left out."""
    if isinstance(error, BadObservation):
        kind = re.split(r"[:(\[]", str(error), maxsplit=1)[0]
        message = str(error)
    else:
        kind = f"{type(error).__name__} {'in a reset' if location.step is None else 'in a step'}"
        what = "it hangs" if isinstance(error, Hung) else f"{type(error).__name__}: {error}"
        message = f"{what}\n{_traceback(error, ours)}"
    return Fault(
        location.env,
        kind,
        f"env {location.env} ({location.name}) failed {location}: {message}\n"
        f"Find out more with: gymlab envs check {location.name}",
    )


def _traceback(error: BaseException, ours: str) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == ours:
        trace = trace.tb_next
    if isinstance(error, Hung):  # its last frame is the signal handler's, and the exception itself says nothing
        frames = traceback.extract_tb(trace)[:-1]
        return "".join(["Traceback (most recent call last):\n", *traceback.format_list(frames)]).rstrip()
    return "".join(traceback.format_exception(type(error), error, trace)).rstrip()


class Restarts:
    """Counts the faults after which an engine restarted an env, logs each kind once, and limits their frequency."""

    def __init__(self) -> None:
        self.count = 0  # since the run's first step, over resumes
        self.env_steps = 0  # of this engine
        self._recent: deque[int] = deque(maxlen=MOST_RESTARTS)
        self._logged: set[str] = set()

    def add(self, fault: Fault) -> None:
        """Count one more; RunError for too many within too few env steps."""
        self.count += 1
        self._recent.append(self.env_steps)
        if len(self._recent) == MOST_RESTARTS and self.env_steps - self._recent[0] < WINDOW_ENV_STEPS:
            raise RunError(
                f"{fault.text}\nEnvs were restarted {MOST_RESTARTS} times within {WINDOW_ENV_STEPS} env steps: "
                "restarting does not help, so the run stops"
            )
        if fault.kind not in self._logged:
            self._logged.add(fault.kind)
            log.warning("%s\nRestarted. More of this kind are counted in env/restarts and not logged.", fault.text)
