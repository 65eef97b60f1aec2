"""Callbacks with Stable-Baselines3's names, called while a model learns; those around evaluation too."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gymlab.core.errors import UserError
from gymlab.sb3.evaluation import evaluate_policy
from gymlab.sb3.progress_bar import make_progress_bar
from gymlab.sb3.vec_env import VecEnv, as_vec_env

if TYPE_CHECKING:
    from gymlab.sb3.logger import Logger
    from gymlab.sb3.model import Model

Locals = dict[str, Any]


class BaseCallback(ABC):
    """Derive from this and write `_on_step`; returning False ends the training at once, without a further update.

    `locals` holds what a step gave, nothing else: `self` (the model), `env`, `actions`, `new_obs`, `rewards`, `dones`,
    `infos`, `n_steps` (of this rollout) and `total_timesteps`. With `per_step = False` in the class, `_on_step` is
    called once per update instead, `locals` holds nothing of the steps, and a compiled env stays compiled.
    """

    per_step = True
    per_update = True  # if not per step: at every update, or only when compiled code returns anyway
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
        """Count the call and return `_on_step`: whether to continue."""
        self.n_calls += 1
        self.num_timesteps = self.model.num_timesteps
        return self._on_step()

    def on_rollout_end(self) -> None:
        self._on_rollout_end()

    def on_training_end(self) -> None:
        self._on_training_end()

    def update_locals(self, locals_: Locals) -> None:
        """Update `locals` with the values of a step."""
        self.locals.update(locals_)
        self.update_child_locals(locals_)

    def update_child_locals(self, locals_: Locals) -> None:
        """Pass them on to child callbacks."""
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


class EvalCallback(EventCallback):
    """Evaluates the model every `eval_freq` calls (vec steps), and keeps the best one and the scores where asked."""

    def __init__(
        self,
        eval_env: Any,
        callback_on_new_best: BaseCallback | None = None,
        callback_after_eval: BaseCallback | None = None,
        n_eval_episodes: int = 5,
        eval_freq: int = 10_000,
        log_path: str | None = None,
        best_model_save_path: str | None = None,
        deterministic: bool = True,
        render: bool = False,
        verbose: int = 1,
        warn: bool = True,
    ) -> None:
        super().__init__(callback_after_eval, verbose)
        self.callback_on_new_best = callback_on_new_best
        if callback_on_new_best is not None:
            callback_on_new_best.parent = self
        self.eval_env = as_vec_env(eval_env)
        self.n_eval_episodes = n_eval_episodes
        self.eval_freq = eval_freq
        self.deterministic = deterministic
        self.render = render
        self.warn = warn
        self.best_mean_reward = self.last_mean_reward = -np.inf
        self.best_model_save_path = None if best_model_save_path is None else Path(best_model_save_path)
        self.log_path = None if log_path is None else Path(log_path) / "evaluations.npz"
        self.evaluations_timesteps: list[int] = []
        self.evaluations_results: list[list[float]] = []
        self.evaluations_length: list[list[int]] = []

    def init_callback(self, model: Model) -> None:
        super().init_callback(model)
        if self.callback_on_new_best is not None:
            self.callback_on_new_best.init_callback(model)

    def _on_step(self) -> bool:
        if self.eval_freq <= 0 or self.n_calls % self.eval_freq:
            return True
        returns, lengths = evaluate_policy(
            self.model,
            self.eval_env,
            n_eval_episodes=self.n_eval_episodes,
            deterministic=self.deterministic,
            render=self.render,
            return_episode_rewards=True,
            warn=self.warn,
        )
        self._report(returns, lengths)
        go_on = True
        if self.last_mean_reward > self.best_mean_reward:
            go_on = self._new_best()
        return self._on_event() and go_on

    def _report(self, returns: list[float], lengths: list[int]) -> None:
        mean = float(np.mean(returns))
        spread = float(np.std(returns))
        self.last_mean_reward = mean
        if self.log_path is not None:
            self.evaluations_timesteps.append(self.num_timesteps)
            self.evaluations_results.append(returns)
            self.evaluations_length.append(lengths)
            self.log_path.parent.mkdir(parents=True, exist_ok=True)
            np.savez(
                self.log_path,
                timesteps=self.evaluations_timesteps,
                results=self.evaluations_results,
                ep_lengths=self.evaluations_length,
            )
        self.logger.record("eval/mean_reward", mean)
        self.logger.record("eval/mean_ep_length", float(np.mean(lengths)))
        if self.verbose >= 1:
            print(f"Eval num_timesteps={self.num_timesteps}, episode_reward={mean:.2f} +/- {spread:.2f}")
            print(f"Episode length: {np.mean(lengths):.2f} +/- {np.std(lengths):.2f}")

    def _new_best(self) -> bool:
        self.best_mean_reward = self.last_mean_reward
        if self.verbose >= 1:
            print("New best mean reward!")
        if self.best_model_save_path is not None:
            self.model.save(self.best_model_save_path / "best_model")
        return True if self.callback_on_new_best is None else self.callback_on_new_best.on_step()

    def update_child_locals(self, locals_: Locals) -> None:
        super().update_child_locals(locals_)
        if self.callback_on_new_best is not None:
            self.callback_on_new_best.update_locals(locals_)


class StopTrainingOnRewardThreshold(BaseCallback):
    """Ends training at a mean return; for EvalCallback's `callback_on_new_best`."""

    parent: EvalCallback

    def __init__(self, reward_threshold: float, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.reward_threshold = reward_threshold

    def _on_step(self) -> bool:
        best = self.parent.best_mean_reward
        go_on = best < self.reward_threshold
        if self.verbose >= 1 and not go_on:
            print(
                f"Stopping training because the mean reward {best:.2f} is above the threshold {self.reward_threshold}"
            )
        return bool(go_on)


class StopTrainingOnNoModelImprovement(BaseCallback):
    """Ends training after so many evaluations without a new best; for EvalCallback's `callback_after_eval`."""

    parent: EvalCallback

    def __init__(self, max_no_improvement_evals: int, min_evals: int = 0, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.max_no_improvement_evals = max_no_improvement_evals
        self.min_evals = min_evals
        self.last_best_mean_reward = -np.inf
        self.no_improvement_evals = 0

    def _on_step(self) -> bool:
        improved = self.parent.best_mean_reward > self.last_best_mean_reward
        self.last_best_mean_reward = self.parent.best_mean_reward
        if self.n_calls <= self.min_evals:
            return True
        self.no_improvement_evals = 0 if improved else self.no_improvement_evals + 1
        return self.no_improvement_evals <= self.max_no_improvement_evals


class ProgressBarCallback(BaseCallback):
    """A progress bar; it needs no host engine and does not cut compiled calls."""

    per_step = per_update = False

    def _on_training_start(self) -> None:
        self._bar = make_progress_bar(self.locals["total_timesteps"], self.model.num_timesteps)

    def _on_step(self) -> bool:
        self._bar.update(self.num_timesteps)
        return True

    def _on_rollout_end(self) -> None:
        self._bar.update(self.model.num_timesteps)

    def _on_training_end(self) -> None:
        self._bar.update(self.model.num_timesteps)
        self._bar.stop()


def as_callback(callback: Any, *, progress_bar: bool) -> BaseCallback | None:
    """One callback out of None, a callback, a function or a list of them."""
    parts = list(callback) if isinstance(callback, list | tuple) else [] if callback is None else [callback]
    callbacks = [part if isinstance(part, BaseCallback) else _converted(part) for part in parts]
    if progress_bar:
        callbacks.append(ProgressBarCallback())
    return callbacks[0] if len(callbacks) == 1 else CallbackList(callbacks) if callbacks else None


def _converted(part: Any) -> BaseCallback:
    if not callable(part):
        raise UserError(f"learn: a callback is a BaseCallback of gymlab.sb3 or a function, got {type(part).__name__}")
    return ConvertCallback(part)
