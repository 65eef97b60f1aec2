"""SyncVector: several Gymnasium envs stepped in turn in this process. The innermost loop of every host run."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from itertools import compress

import numpy as np

from gymlab.core.errors import GymlabError
from gymlab.core.types import Array, Spaces, VecStep
from gymlab.envs.env_faults import EnvFault, EpisodeSeeds, Fault, Hung, describe_fault
from gymlab.envs.gymnasium_types import Env, EnvValue, Info, ResetResult
from gymlab.envs.make import DEFAULT_TIME_LIMIT, BareEnv, limit_inside, limit_steps_per_step, make_bare
from gymlab.envs.registry import FRESH_PER_EPISODE, resolve_id
from gymlab.envs.replay_log import ActionLog, Progress, Restored, Snapshot, incompatibility, next_episode
from gymlab.envs.settings import EnvSettings
from gymlab.envs.step_buffer import BadObservation, Put, StepBuffer, check_supported, checked_writer, writer

Factory = Callable[[int], Env]  # env index -> env object
OnFault = Callable[[Fault], None]  # called before an env is restarted; may raise to stop the run

_REPORT_SECONDS = 0.2
_RESETS = 3  # resets of one env that may fail in a row


class SyncVector:
    """Envs `indices` of a run. `step` and `reset` return one VecStep whose arrays the next call overwrites.

    With `on_fault` an env that fails is made anew in its next episode; without, the first fault ends the run.
    """

    def __init__(
        self,
        settings: EnvSettings,
        indices: range,
        run_seed: int,
        evaluation: bool,
        factory: Factory | None = None,
        on_fault: OnFault | None = None,
    ) -> None:
        self._settings = settings
        self._indices = indices
        self._seeds = EpisodeSeeds(settings.id, run_seed, evaluation)
        self._factory = factory
        self._on_fault = on_fault
        self.restorable = factory is None
        self._evaluates = evaluation
        self._remakes = factory is None and resolve_id(settings.id).id in FRESH_PER_EPISODE
        n = len(indices)
        self._used = [False] * n
        first = self._make(0)
        self.envs: list[Env] = [first.env]
        check_supported(first.env.observation_space, first.env.action_space)
        # Only a reset shows whether actions are masked, so the first episode begins here; `reset` reuses it.
        try:
            self._first_reset: ResetResult | None = self._reset_env(0, 0)
            masked = settings.action_mask and "action_mask" in self._first_reset[1]
            # Evaluation plays whole games, also where learning counts a lost life as an ending.
            self._reports_part_over = not evaluation and "part_over" in self._first_reset[1]
        except (Exception, Hung) as error:  # any error of the env's author
            raise EnvFault(self._fault(0, 0, None, error)) from None  # its text holds the whole traceback
        skips = limit_steps_per_step(first.env)
        self.spaces = Spaces(first.env.observation_space, first.env.action_space, masked, first.limit, skips)
        self._counts = not first.truncates_itself
        self.envs += [self._make(row).env for row in range(1, n)]
        self._steps = [env.step for env in self.envs]
        self._allocate(n)

    def _allocate(self, n: int) -> None:
        self.buffers = StepBuffer(self.spaces, n)
        self.history = ActionLog(self.buffers, self.spaces.action, self.spaces.max_episode_steps)
        step = self.buffers.step
        space = self.spaces.observation
        obs, successor = (step.obs.obs, step.successor.obs) if self.spaces.masked else (step.obs, step.successor)
        self._put_obs: Put = checked_writer(space, obs)
        self._put_successor: Put = writer(space, successor)
        floats = [array for array in (step.reward, *self.buffers.successor_leaves) if array.dtype.kind == "f"]
        self._finite = [(array, array.reshape(-1)) for array in floats]
        self._copies = list(zip(self.buffers.obs_leaves, self.buffers.successor_leaves, strict=True))
        self._everyone = list(range(n))
        self._part_over = np.zeros(n, bool)

    def reset(self, episode: int | list[int] | None = None) -> VecStep:
        """Start every env's next episode, or the one with the given index (one for all, or each its own)."""
        if episode is not None:
            self.history.episode[:] = np.asarray(episode) - 1
        for row in self._everyone:
            self._begin(row)
        self.buffers.arrays.fresh.fill(True)
        return self.buffers.without_transition()

    def step(self, actions: Array, active: Array | None = None) -> VecStep:
        """Step every env, or only the `active` ones: the others keep their observation and are paid nothing."""
        actions = np.array(actions, self.history.dtype)  # a copy of our own: envs may keep their last action
        step = self.buffers.step
        steps = self._steps
        order = self._everyone
        reward, terminated, truncated, fresh = self.buffers.arrays
        mask = step.successor.mask if self.spaces.masked else None
        if active is not None:
            self.buffers.without_transition()
            order = np.flatnonzero(active).tolist()
        self.history.append(actions)
        put = self._put_successor
        row = 0
        rows = iter(order)
        part_over = self._part_over if self._reports_part_over else None
        self._part_over.fill(False)
        broken: list[int] = []
        while True:
            try:
                for row in rows:
                    obs, reward[row], terminated[row], truncated[row], info = steps[row](actions[row])
                    put(row, obs)
                    if mask is not None:
                        mask[row] = info["action_mask"]
                    if part_over is not None:
                        part_over[row] = info["part_over"]
                break
            except (Exception, Hung) as error:  # any error of the env's author
                self._truncate(row, actions[row], error)
                broken.append(row)
        broken += self._check(actions)
        self.history.elapsed += 1 if active is None else np.asarray(active, bool)
        if self._counts:
            truncated |= self.history.elapsed >= self.spaces.max_episode_steps
        np.greater(truncated, terminated, out=truncated)  # where an env reports both, terminated wins
        np.logical_or(terminated, truncated, out=fresh)
        if part_over is not None:
            terminated |= part_over & ~fresh  # no bootstrapping past it (a lost life, a point), but the game continues
        self._digest_step(active)
        for obs, successor in self._copies:
            np.copyto(obs, successor)
        for row in broken:
            self._replace(row)
        for row in compress(self._everyone, fresh.tolist()):
            self._begin(row)
        return step

    def snapshot(self) -> Snapshot:
        """The replay log of all envs."""
        return self.history.snapshot(slice(None), restorable=self.restorable)

    def restore(self, snapshot: Snapshot, progress: Progress | None = None) -> Restored:
        """Rebuild every env from its episode's seed and its actions; where that fails, begin a new episode instead."""
        problem = incompatibility(snapshot, len(self._everyone), self.spaces.action, self.restorable)
        if problem:
            return Restored(self.reset(next_episode(snapshot)), False, problem)
        self._first_reset = None
        ends = np.cumsum(snapshot["elapsed"])
        problems = []
        reported = time.monotonic()
        self.history.episode[:] = snapshot["episode"]
        for row in self._everyone:
            begin = int(ends[row] - snapshot["elapsed"][row])

            def report(done: int, begin: int = begin) -> None:
                nonlocal reported
                if progress is not None and time.monotonic() - reported > _REPORT_SECONDS:
                    reported = time.monotonic()
                    progress(begin + done, int(ends[-1]))

            problem = "it is excluded from replay"
            if snapshot["restorable"][row]:
                problem = self._replay(row, snapshot["actions"][begin : ends[row]], report)
            if not problem and not self._evaluates and self.buffers.digest.current()[row] != snapshot["digest"][row]:
                steps = self.history.elapsed[row]
                problem = f"the replay of {steps} steps gave other observations, rewards or endings than the run had"
            if problem:
                problems.append(f"env {self._indices[row]}: {problem}")
                self._replace(row)
                self._begin(row)
        self.buffers.step.fresh[:] = self.history.elapsed == 0
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return Restored(self.buffers.without_transition(), not problems, problems[0] + more if problems else "")

    def close(self) -> None:
        for env in self.envs:
            with contextlib.suppress(Exception):  # an env that cannot close must not hide why the run ended
                env.close()
        self.envs = []
        self._steps = []

    def _make(self, row: int) -> BareEnv:
        if self._factory is None:
            return make_bare(self._settings)
        env = self._factory(self._indices[row])
        inside = limit_inside(env)
        limit = self._settings.max_episode_steps
        return BareEnv(
            env, limit or inside or DEFAULT_TIME_LIMIT, truncates_itself=limit is None and inside is not None
        )

    def _replace(self, row: int) -> None:
        if self._factory is not None or not self._used[row]:
            return  # an object of the caller's, which only they can make; or an unused one
        with contextlib.suppress(Exception):  # it may be in any state
            self.envs[row].close()
        self.envs[row] = self._make(row).env
        self._steps[row] = self.envs[row].step
        self._used[row] = False

    def _begin(self, row: int) -> None:
        """Start an env's next episode; where envs are restarted, a failing reset is retried on a new env."""
        for tried in range(1, _RESETS + 1):
            self.history.episode[row] += 1
            self.history.elapsed[row] = 0
            episode = int(self.history.episode[row])
            begun = None
            if row == 0:
                begun = self._first_reset if episode == 0 else None
                self._first_reset = None
            try:
                self._show(row, *(begun or self._reset_env(row, episode)))
                self.buffers.digest.begin(row)
                return
            except GymlabError:
                raise
            except (Exception, Hung) as error:  # any error of the env's author
                fault = self._fault(row, episode, None, error)
                if tried == _RESETS:
                    fault = fault._replace(text=f"{fault.text}\nIts reset failed {tried} times in a row")
                    raise EnvFault(fault) from None
                self._report(fault, error)
            self._replace(row)

    def _reset_env(self, row: int, episode: int) -> ResetResult:
        if self._remakes:
            self._replace(row)
        self._used[row] = True
        obs, info = self.envs[row].reset(seed=self._seeds.seed(self._indices[row], episode))
        return obs, info

    def _show(self, row: int, obs: EnvValue, info: Info) -> None:
        self._put_obs(row, obs)
        if self.spaces.masked:
            self.buffers.step.obs.mask[row] = info["action_mask"]

    def _replay(self, row: int, actions: Array, report: Callable[[int], None]) -> str:
        """Make one env anew and repeat `actions` in it; returns what failed, "" for nothing."""
        self._replace(row)
        self.history.elapsed[row] = 0
        try:
            obs, info = self._reset_env(row, int(self.history.episode[row]))
            self._show(row, obs, info)
            self.buffers.digest.begin(row)
            step = self._steps[row]
            ended = False
            for done, action in enumerate(actions):
                if ended:
                    return f"its episode ended after {done} of {len(actions)} replayed steps"
                obs, reward, terminated, truncated, info = step(action)
                ended = bool(terminated or truncated)
                self._digest_replayed(row, obs, float(reward), info)
                report(done)
            self._show(row, obs, info)
        except Exception as error:  # any error of the env's author
            return f"the replay failed: {type(error).__name__}: {error}"
        self.history.replace(row, actions)
        return ""

    def _digest_step(self, active: Array | None) -> None:
        if self._evaluates:  # evaluation's envs are never put back
            return
        if active is None:
            self.buffers.digest.add_all()
        else:
            self.buffers.digest.add(np.flatnonzero(active))

    def _digest_replayed(self, row: int, obs: EnvValue, reward: float, info: Info) -> None:
        """Feed a replayed step, which ended no episode, to the digest."""
        step = self.buffers.step
        self._put_successor(row, obs)
        if self.spaces.masked:
            step.successor.mask[row] = info["action_mask"]
        step.reward[row] = reward
        step.terminated[row] = self._reports_part_over and info["part_over"]
        self.buffers.digest.add(slice(row, row + 1))

    def _check(self, actions: Array) -> list[int]:
        """Truncate transitions with NaN or infinity, or whose mask allows no action; returns their rows."""
        step = self.buffers.step
        rows = []
        for array, flat in self._finite:
            # The sum of squares is quick to have, and finite only if every number is (or none is near overflow).
            if not math.isfinite(flat.dot(flat)) and not np.isfinite(flat).all():
                name = "reward" if array is step.reward else "observation"
                for row in np.flatnonzero(~np.isfinite(array.reshape(len(array), -1)).all(axis=1)).tolist():
                    bad = BadObservation(f"{name} holds NaN or infinity: {array[row].tolist()}")
                    self._truncate(row, actions[row], bad)
                    rows.append(row)
        if self.spaces.masked:
            stuck = ~(step.successor.mask.any(axis=1) | step.terminated | step.truncated)
            for row in np.flatnonzero(stuck).tolist():
                self._truncate(row, actions[row], BadObservation("its action mask allows no action"))
                rows.append(row)
        return rows

    def _truncate(self, row: int, action: Array, error: BaseException) -> None:
        self._report(self._fault(row, int(self.history.episode[row]), action, error), error)
        self.buffers.truncate(row, self.buffers, row)

    def _report(self, fault: Fault, error: BaseException) -> None:
        """Report a fault before the env is restarted; raises where the run stops. The parent process handles hangs."""
        if self._on_fault is None or isinstance(error, Hung):
            raise EnvFault(fault) from None
        self._on_fault(fault)

    def _fault(self, row: int, episode: int, action: Array | None, error: BaseException) -> Fault:
        elapsed = 0 if action is None else self.history.elapsed[row]
        return describe_fault(self._seeds.location(self._indices[row], episode, elapsed, action), error, __file__)
