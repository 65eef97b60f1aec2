"""One call of `learn`: the program of a run with a model and its callback listening in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import jax
import numpy as np

from gymlab.core.clock import Clock
from gymlab.core.types import Array, VecStep
from gymlab.networks.distributions import to_env_action
from gymlab.recipes.schema import Recipe
from gymlab.sb3.callbacks import BaseCallback
from gymlab.sb3.programs import compiled_parts
from gymlab.sb3.vec_env import VecEnv
from gymlab.session.build import Parts, build
from gymlab.training.events import Control, Event, Feature, Updated
from gymlab.training.named_tensors import Tensors
from gymlab.training.nonfinite import NumericalFault
from gymlab.training.state import TrainState
from gymlab.training.trainer import Advanced

if TYPE_CHECKING:
    from gymlab.sb3.model import Model


class Aborted(Exception):
    """A callback returned False."""


class Tap(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Remembers the info of the last step, which engines do not pass on."""

    info: dict[str, Any]

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step and remember."""
        result = self.env.step(action)
        self.info = result[4]
        return result


class Trainer:
    """The parts of training in one of two ways: on an env by its settings, or on env objects."""

    def __init__(self, recipe: Recipe, seed: int, envs: VecEnv | None) -> None:
        self.envs = envs
        self.taps: list[Tap] = []
        self.lesson: Lesson | None = None
        self.parts: Parts
        if envs is None:
            self.parts = compiled_parts(recipe) if recipe.engine == "jax" else build(recipe, seed)
        else:
            self.parts = build(recipe, seed, factory=self._lend, on_step=self._stepped)

    @property
    def continues(self) -> bool:
        """Whether its envs stay where a rollout left them: others may step env objects meanwhile."""
        return self.envs is None

    def _lend(self, index: int) -> Tap:
        assert self.envs is not None
        self.taps.append(Tap(self.envs.lend()[index]))
        return self.taps[-1]

    def _stepped(self, action: np.ndarray, vec: VecStep) -> None:
        if self.lesson is not None:
            self.lesson.stepped(action, vec)

    def close(self) -> None:
        """Close the envs made here; env objects stay open for whoever gave them."""
        if self.envs is None:
            self.parts.program.close()


class Lesson(Feature):
    """Stands for the trainer's program in the loop, and listens to the loop's events."""

    name = "lesson"
    called = None

    def __init__(self, model: Model, trainer: Trainer, callback: BaseCallback | None, total_steps: int) -> None:
        self._model = model
        self._trainer = trainer
        self._callback = callback
        self._per_step = callback is not None and callback.per_step
        self._total_steps = total_steps
        self._program = trainer.parts.program
        self.agent = self._program.agent
        self.most = self._program.most
        self.call_seconds = self._program.call_seconds
        self.current: TrainState | None = None
        self.clock = Clock()
        self.steps = 0  # of the rollout being collected
        self.whole = True  # the envs stand where the state says

    @property
    def num_timesteps(self) -> int:
        return self.clock.env_steps + self.steps * self._model.n_envs

    def begin(self, state: TrainState, clock: Clock) -> None:
        self.current = state
        self.clock = clock
        self._trainer.lesson = self
        if self._callback is not None:
            self._callback.init_callback(self._model)
            facts = {"self": self._model, "env": self._trainer.envs, "total_timesteps": self._total_steps}
            self._callback.on_training_start(facts, {})

    def end(self) -> None:
        self._trainer.lesson = None
        if self._callback is not None:
            self._callback.on_training_end()

    def start(self, seed: int, *, ahead: bool = False) -> TrainState:
        return self._program.start(seed, ahead=ahead)

    def opened(self, state: TrainState) -> TrainState:
        return state

    def advance(self, state: TrainState, first: int, hp: Array, stop_return: float) -> Advanced:
        """As the program does, with a state that the model can see in between."""
        self.current = state  # compiled code changes nothing
        self.whole = self._trainer.continues and self.most > 1
        if self._callback is not None and self._per_step:
            self._callback.on_rollout_start()
        try:
            advanced = self._program.advance(state, first, hp, stop_return)
        except NumericalFault as fault:
            self.current = fault.good.state
            raise
        self.current = advanced.state
        self.whole = True
        return advanced

    def stepped(self, action: np.ndarray, vec: VecStep) -> None:
        """After every step of env objects."""
        self.steps += 1
        if self._callback is None or not self._per_step:
            return
        self._callback.update_locals(self._locals(action, vec))
        if not self._callback.on_step():
            raise Aborted
        if self.steps == self._trainer.parts.plan.steps_per_update:
            self._callback.on_rollout_end()

    def _locals(self, action: np.ndarray, vec: VecStep) -> dict[str, Any]:
        infos = []
        for i, tap in enumerate(self._trainer.taps):
            info = {**tap.info, "TimeLimit.truncated": bool(vec.truncated[i])}
            if vec.fresh[i]:
                info["terminal_observation"] = jax.tree.map(lambda leaf, i=i: np.copy(leaf[i]), vec.successor)
            infos.append(info)
        return {
            "actions": to_env_action(self._trainer.parts.spaces.action, action),
            "new_obs": jax.tree.map(np.copy, vec.obs),
            "rewards": vec.reward.copy(),
            "dones": vec.terminated | vec.truncated,
            "infos": infos,
            "n_steps": self.steps,
        }

    def due(self, updates: int) -> int | None:
        """Compiled calls end where a callback must be called."""
        return updates + 1 if self._callback is not None and self._callback.per_update else None

    def save(self, state: TrainState) -> Tensors:
        return self._program.save(state)

    def load(self, state: TrainState, tensors: Tensors) -> tuple[TrainState, list[str]]:
        return self._program.load(state, tensors)

    def close(self) -> None:
        """The trainer outlives the lesson."""

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Updated):
            self.clock = event.clock
            self.steps = 0
            if self._callback is not None and not self._per_step and not self._callback.on_step():
                control.request_stop("callback")
