"""What a model trains with: the compiled or host trainer of its envs, and one `learn` call on it with its callback."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from gymlab.core.clock import Clock
from gymlab.core.types import Array, Spaces, VecStep
from gymlab.envs.gymnasium_types import EnvValue, EnvWrapper, Info, ResetResult, StepResult
from gymlab.networks.distributions import to_env_action
from gymlab.recipes.project_settings import cache_folder
from gymlab.recipes.schema import Recipe
from gymlab.sb3.callbacks import BaseCallback
from gymlab.sb3.vec_env import VecEnv
from gymlab.session.build import SMALL_NETWORK, Parts, build, make_agent
from gymlab.session.jax_setup import choose_device, set_up_jax
from gymlab.session.predictor import CompiledAgent, compile_agent
from gymlab.training.events import Control, Event, Feature, Updated
from gymlab.training.named_tensors import Tensors
from gymlab.training.nonfinite import NumericalFault
from gymlab.training.state import TrainState
from gymlab.training.trainer import Advanced

if TYPE_CHECKING:
    from gymlab.sb3.model import Model

_CACHED = 16  # compiled parts, and policies


class Aborted(Exception):
    """A callback returned False."""


class Tap(EnvWrapper):
    """Keeps the info of the last step, which engines do not pass on."""

    info: Info

    def reset(self, **options: Any) -> ResetResult:
        """Start an episode; the env gets only the arguments that were given, as its reset may know no others."""
        return self.env.reset(**options)

    def step(self, action: EnvValue) -> StepResult:
        """Step the env and keep the info."""
        result = self.env.step(action)
        self.info = result[4]
        return result


class TrainingSetup:
    """The parts of training on envs built from their settings (`envs` is None), or on env objects."""

    def __init__(self, recipe: Recipe, seed: int, envs: VecEnv | None) -> None:
        self.envs = envs
        self.taps: list[Tap] = []
        self.call: LearnCall | None = None
        self.parts: Parts
        if envs is None:
            self.parts = compiled_parts(recipe) if recipe.engine == "jax" else build(recipe, seed)
        else:
            self.parts = build(recipe, seed, factory=self._wrapped_env, on_step=self._on_step)

    @property
    def continues(self) -> bool:
        """Whether its envs keep their state between calls: env objects may be stepped by others meanwhile."""
        return self.envs is None

    def _wrapped_env(self, index: int) -> Tap:
        assert self.envs is not None
        self.taps.append(Tap(self.envs.unchanged_envs()[index]))
        return self.taps[-1]

    def _on_step(self, action: np.ndarray, vec: VecStep) -> None:
        if self.call is not None:
            self.call.on_step(action, vec)

    def close(self) -> None:
        """Close the envs built here; env objects belong to the user and stay open."""
        if self.envs is None:
            self.parts.program.close()


class LearnCall(Feature):
    """One call of `learn`: wraps the trainer for the loop, and calls the callback on its events."""

    name = "learn_call"
    last_call_seconds = None

    def __init__(self, model: Model, setup: TrainingSetup, callback: BaseCallback | None, total_steps: int) -> None:
        self._model = model
        self._setup = setup
        self._callback = callback
        self._per_step = callback is not None and callback.per_step
        self._total_steps = total_steps
        self._trainer = setup.parts.program
        self.agent = self._trainer.agent
        self.most = self._trainer.most
        self.call_seconds = self._trainer.call_seconds
        self.current: TrainState | None = None
        self.clock = Clock()
        self.steps = 0  # of the rollout being collected
        self.whole = True  # whether the envs are where the state says

    @property
    def num_timesteps(self) -> int:
        return self.clock.env_steps + self.steps * self._model.n_envs

    def begin(self, state: TrainState, clock: Clock) -> None:
        self.current = state
        self.clock = clock
        self._setup.call = self
        if self._callback is not None:
            self._callback.init_callback(self._model)
            facts = {"self": self._model, "env": self._setup.envs, "total_timesteps": self._total_steps}
            self._callback.on_training_start(facts, {})

    def end(self) -> None:
        self._setup.call = None
        if self._callback is not None:
            self._callback.on_training_end()

    def start(self, seed: int, *, ahead: bool = False) -> TrainState:
        return self._trainer.start(seed, ahead=ahead)

    def materialize(self, state: TrainState) -> TrainState:
        return state

    def advance(self, state: TrainState, clock: Clock, hp: Array, stop_return: float) -> Advanced:
        """Advance the trainer, with the state before and after visible to the model."""
        self.current = state  # until the compiled code returns
        self.whole = self._setup.continues and self.most > 1
        if self._callback is not None and self._per_step:
            self._callback.on_rollout_start()
        try:
            advanced = self._trainer.advance(state, clock, hp, stop_return)
        except NumericalFault as fault:
            self.current = fault.good.state
            raise
        self.current = advanced.state
        self.whole = True
        return advanced

    def on_step(self, action: np.ndarray, vec: VecStep) -> None:
        """Called after every step of env objects."""
        self.steps += 1
        if self._callback is None or not self._per_step:
            return
        self._callback.update_locals(self._locals(action, vec))
        if not self._callback.on_step():
            raise Aborted
        if self.steps == self._setup.parts.plan.steps_per_update:
            self._callback.on_rollout_end()

    def _locals(self, action: np.ndarray, vec: VecStep) -> dict[str, Any]:
        infos = []
        for i, tap in enumerate(self._setup.taps):
            info = {**tap.info, "TimeLimit.truncated": bool(vec.truncated[i])}
            if vec.fresh[i]:
                info["terminal_observation"] = jax.tree.map(lambda leaf, i=i: np.copy(leaf[i]), vec.successor)
            infos.append(info)
        return {
            "actions": to_env_action(self._setup.parts.spaces.action, action),
            "new_obs": jax.tree.map(np.copy, vec.obs),
            "rewards": vec.reward.copy(),
            "dones": vec.terminated | vec.truncated,
            "infos": infos,
            "n_steps": self.steps,
        }

    def due(self, now: Clock) -> int | None:
        """The next update at which compiled code must return, for the callback."""
        return now.updates + 1 if self._callback is not None and self._callback.per_update else None

    def save(self, state: TrainState) -> Tensors:
        return self._trainer.save(state)

    def load(self, state: TrainState, tensors: Tensors) -> tuple[TrainState, list[str]]:
        return self._trainer.load(state, tensors)

    def close(self) -> None:
        """Nothing: the trainer is used by later calls."""

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Updated):
            self.clock = event.clock
            self.steps = 0
            if self._callback is not None and not self._per_step and not self._callback.on_step():
                control.request_stop("callback")


class _CacheKey:
    """A hashable recipe and spaces: equal if their texts are."""

    def __init__(self, recipe: Recipe, spaces: Spaces | None = None) -> None:
        self.recipe = recipe
        self.spaces = spaces
        self._text = f"{recipe.model_dump_json()} {spaces}"

    def __hash__(self) -> int:
        return hash(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _CacheKey) and self._text == other._text


def use_device(recipe: Recipe) -> None:
    """Make the recipe's device JAX's default again: another model may have changed it."""
    small = max(recipe.policy.hidden, default=0) <= SMALL_NETWORK
    choose_device(recipe.device, host_engine=recipe.engine != "jax", small=small)


def compiled_agent(recipe: Recipe, spaces: Spaces) -> CompiledAgent:
    """How a recipe's policy acts in envs with these spaces; cached for models with the same settings."""
    set_up_jax(cache_folder())
    return _compiled_agent(_CacheKey(recipe, spaces))


def compiled_parts(recipe: Recipe) -> Parts:
    """The parts of training on a compiled env; cached, because pure functions can be shared by models."""
    return _compiled_parts(_CacheKey(recipe))


@lru_cache(_CACHED)
def _compiled_agent(key: _CacheKey) -> CompiledAgent:
    assert key.spaces is not None
    agent = make_agent(key.recipe, key.spaces)
    n_envs = key.recipe.n_envs
    return compile_agent(agent, n_envs)


@lru_cache(_CACHED)
def _compiled_parts(key: _CacheKey) -> Parts:
    return build(key.recipe, 0)
