"""Callbacks around evaluation: keep the best model, and stop when it is good enough or gets no better."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gymlab.sb3.callbacks import BaseCallback, EventCallback, Locals
from gymlab.sb3.evaluation import evaluate_policy
from gymlab.sb3.vec_env import as_vec_env

if TYPE_CHECKING:
    from gymlab.sb3.model import Model


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
    """Ends training at a mean return; given to EvalCallback as `callback_on_new_best`."""

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
    """Ends training after so many evaluations without a new best; given to EvalCallback as `callback_after_eval`."""

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
