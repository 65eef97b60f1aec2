"""Callbacks with Stable-Baselines3's names: called by a model while it learns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gymlab.core.errors import UserError

if TYPE_CHECKING:
    from gymlab.sb3.logger import Logger
    from gymlab.sb3.model import Model
    from gymlab.sb3.vec_env import VecEnv

Locals = dict[str, Any]


class BaseCallback(ABC):
    """Derive from this and write `_on_step`; returning False ends the training at once, without a further update.

    `locals` holds what a step gave, nothing else: `self` (the model), `env`, `actions`, `new_obs`, `rewards`, `dones`,
    `infos`, `n_steps` (of this rollout) and `total_timesteps`. With `per_step = False` in the class, `_on_step` is
    called once per update instead, `locals` holds nothing of the steps, and a compiled env stays compiled.
    """

    per_step = True
    per_update = True  # where it is not called at every step: at every update, or only when the loop comes by
    model: Model

    def __init__(self, verbose: int = 0) -> None:
        self.verbose = verbose
        self.n_calls = 0  # of `on_step`
        self.num_timesteps = 0
        self.locals: Locals = {}
        self.globals: Locals = {}
        self.parent: BaseCallback | None = None

    @property
    def training_env(self) -> VecEnv | None:
        return self.model.get_env()

    @property
    def logger(self) -> Logger:
        return self.model.logger

    def init_callback(self, model: Model) -> None:
        """Called once before training begins."""
        self.model = model
        self._init_callback()

    def on_training_start(self, locals_: Locals, globals_: Locals) -> None:
        self.locals = locals_
        self.globals = globals_
        self.num_timesteps = self.model.num_timesteps
        self._on_training_start()

    def on_rollout_start(self) -> None:
        self._on_rollout_start()

    def on_step(self) -> bool:
        """Count the call and ask `_on_step` whether to go on."""
        self.n_calls += 1
        self.num_timesteps = self.model.num_timesteps
        return self._on_step()

    def on_rollout_end(self) -> None:
        self._on_rollout_end()

    def on_training_end(self) -> None:
        self._on_training_end()

    def update_locals(self, locals_: Locals) -> None:
        """Take over what a step gave."""
        self.locals.update(locals_)
        self.update_child_locals(locals_)

    def update_child_locals(self, locals_: Locals) -> None:
        """Hand it on, where there are callbacks inside."""
        del locals_

    def _init_callback(self) -> None:
        return

    def _on_training_start(self) -> None:
        return

    def _on_rollout_start(self) -> None:
        return

    @abstractmethod
    def _on_step(self) -> bool: ...

    def _on_rollout_end(self) -> None:
        return

    def _on_training_end(self) -> None:
        return


class EventCallback(BaseCallback):
    """Calls another callback when something happens."""

    def __init__(self, callback: BaseCallback | None = None, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.callback = callback
        if callback is not None:
            callback.parent = self

    def init_callback(self, model: Model) -> None:
        super().init_callback(model)
        if self.callback is not None:
            self.callback.init_callback(model)

    def _on_training_start(self) -> None:
        if self.callback is not None:
            self.callback.on_training_start(self.locals, self.globals)

    def _on_event(self) -> bool:
        return True if self.callback is None else self.callback.on_step()

    def _on_step(self) -> bool:
        return True

    def update_child_locals(self, locals_: Locals) -> None:
        if self.callback is not None:
            self.callback.update_locals(locals_)


class CallbackList(BaseCallback):
    """Several callbacks, one after the other; training ends when any of them says so."""

    def __init__(self, callbacks: Sequence[BaseCallback]) -> None:
        super().__init__()
        self.callbacks = list(callbacks)
        self.per_step = any(callback.per_step for callback in self.callbacks)
        self.per_update = any(callback.per_update for callback in self.callbacks)

    def _init_callback(self) -> None:
        for callback in self.callbacks:
            callback.init_callback(self.model)

    def _on_training_start(self) -> None:
        for callback in self.callbacks:
            callback.on_training_start(self.locals, self.globals)

    def _on_rollout_start(self) -> None:
        for callback in self.callbacks:
            callback.on_rollout_start()

    def _on_step(self) -> bool:
        answers = [callback.on_step() for callback in self.callbacks]
        return all(answers)

    def _on_rollout_end(self) -> None:
        for callback in self.callbacks:
            callback.on_rollout_end()

    def _on_training_end(self) -> None:
        for callback in self.callbacks:
            callback.on_training_end()

    def update_child_locals(self, locals_: Locals) -> None:
        for callback in self.callbacks:
            callback.update_locals(locals_)


class ConvertCallback(BaseCallback):
    """A function of `(locals, globals)` as a callback."""

    def __init__(self, callback: Callable[[Locals, Locals], bool | None], verbose: int = 0) -> None:
        super().__init__(verbose)
        self.callback = callback

    def _on_step(self) -> bool:
        return self.callback(self.locals, self.globals) is not False


class CheckpointCallback(BaseCallback):
    """Saves the model every `save_freq` calls."""

    def __init__(
        self,
        save_freq: int,
        save_path: str,
        name_prefix: str = "rl_model",
        save_replay_buffer: bool = False,
        save_vecnormalize: bool = False,
        verbose: int = 0,
    ) -> None:
        super().__init__(verbose)
        del save_replay_buffer, save_vecnormalize  # there is no replay buffer, and statistics are part of the model
        self.save_freq = save_freq
        self.save_path = Path(save_path)
        self.name_prefix = name_prefix

    def _on_step(self) -> bool:
        if self.n_calls % self.save_freq == 0:
            path = self.save_path / f"{self.name_prefix}_{self.num_timesteps}_steps.zip"
            self.model.save(path)
            if self.verbose >= 2:
                print(f"Saving model checkpoint to {path}")
        return True


class EveryNTimesteps(EventCallback):
    """Calls another callback every `n_steps` transitions."""

    def __init__(self, n_steps: int, callback: BaseCallback) -> None:
        super().__init__(callback)
        self.n_steps = n_steps
        self.last_time_trigger = 0

    def _on_step(self) -> bool:
        if self.num_timesteps - self.last_time_trigger < self.n_steps:
            return True
        self.last_time_trigger = self.num_timesteps
        return self._on_event()


class StopTrainingOnMaxEpisodes(BaseCallback):
    """Ends training after `max_episodes` episodes of each env."""

    def __init__(self, max_episodes: int, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.max_episodes = max_episodes
        self.n_episodes = 0

    def _on_step(self) -> bool:
        self.n_episodes += int(np.sum(self.locals["dones"]))
        go_on = self.n_episodes < self.max_episodes * self.model.n_envs
        if self.verbose >= 1 and not go_on:
            print(
                f"Stopping training with a total of {self.num_timesteps} steps because {self.n_episodes} episodes ended"
            )
        return go_on


class ProgressBarCallback(BaseCallback):
    """A progress bar; it needs no host engine and does not cut compiled calls."""

    per_step = per_update = False

    def _on_training_start(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

        self._bar = Progress(BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        total = self.locals["total_timesteps"]
        self._task = self._bar.add_task("learn", total=total, completed=self.model.num_timesteps)
        self._bar.start()

    def _on_step(self) -> bool:
        self._bar.update(self._task, completed=self.num_timesteps)
        return True

    def _on_rollout_end(self) -> None:
        self._bar.update(self._task, completed=self.model.num_timesteps)

    def _on_training_end(self) -> None:
        self._bar.update(self._task, completed=self.model.num_timesteps)
        self._bar.stop()


def as_callback(given: Any, *, progress_bar: bool) -> BaseCallback | None:
    """One callback out of None, a callback, a function or a list of them."""
    parts = list(given) if isinstance(given, list | tuple) else [] if given is None else [given]
    callbacks = [part if isinstance(part, BaseCallback) else _converted(part) for part in parts]
    if progress_bar:
        callbacks.append(ProgressBarCallback())
    return callbacks[0] if len(callbacks) == 1 else CallbackList(callbacks) if callbacks else None


def _converted(part: Any) -> BaseCallback:
    if not callable(part):
        raise UserError(f"learn: a callback is a BaseCallback of gymlab.sb3 or a function, got {type(part).__name__}")
    return ConvertCallback(part)
