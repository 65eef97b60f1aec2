"""The state of a model as a value: made, carried from one env to another, written to a file and read from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from gymlab.core.clock import Clock
from gymlab.core.errors import RunError, UserError
from gymlab.core.jax_keys import run_key
from gymlab.core.types import Spaces
from gymlab.envs.settings import EnvSettings
from gymlab.sb3 import translate
from gymlab.sb3.arguments import bind
from gymlab.sb3.lesson import Trainer
from gymlab.sb3.model_file import ModelFile
from gymlab.sb3.source import rebuilt
from gymlab.sb3.space_json import spaces_from_json, spaces_to_json
from gymlab.session.predictor import CompiledAgent
from gymlab.training.agent import Agent
from gymlab.training.loop import RunPlan
from gymlab.training.named_tensors import Tensors, from_tensors, split_tensors, to_tensors
from gymlab.training.state import TrainState

if TYPE_CHECKING:
    from gymlab.sb3.model import Model

M = TypeVar("M", bound="Model")
_FIXED = ("policy", "policy_kwargs", "env")


class Standing(NamedTuple):
    """A whole state, and the envs it belongs to."""

    tensors: Tensors
    envs: dict[str, Any]


def first_state(acting: CompiledAgent, seed: int) -> TrainState:
    """The weights that training with this seed begins with, without envs."""
    key = run_key(seed)
    algorithm, normaliser = acting.begin(key)
    return TrainState(algorithm, normaliser, (), key)


def adopted(agent: Agent, begun: TrainState, known: TrainState) -> TrainState:
    """A started state with what another one has learnt. What was kept of its open episodes is left behind."""
    own = to_tensors(begun.algorithm)
    theirs = to_tensors(known.algorithm)
    kept = {name: theirs[name] for name in own if name in theirs and theirs[name].shape == own[name].shape}
    algorithm = agent.algorithm.forget_open_episodes(from_tensors(begun.algorithm, own | kept))
    return begun._replace(algorithm=algorithm, normaliser=known.normaliser)


def rebased(clock: Clock, plan: RunPlan) -> Clock:
    """The clock in rollouts of this size, where it was counted in others."""
    rollout = plan.steps_per_update * plan.n_envs
    if clock.env_steps == clock.updates * rollout:
        return clock
    updates = -(-clock.env_steps // rollout)
    return clock._replace(updates=updates, vec_steps=updates * plan.steps_per_update, env_steps=updates * rollout)


def check_spaces(owner: str, known: Spaces, found: Spaces) -> None:
    """UserError where a policy for one env cannot act in another."""
    for name, ours, theirs in (
        ("observation", known.observation, found.observation),
        ("action", known.action, found.action),
    ):
        if ours != theirs:
            raise UserError(f"{owner}: the env's {name} space {theirs} is not the model's, {ours}")


def parameters(agent: Agent, state: TrainState) -> dict[str, Tensors]:
    """`policy`: all that acting needs; `policy.optimizer`: the rest of the algorithm's state."""
    rest = {name: value for name, value in to_tensors(state.algorithm).items() if not name.startswith("params/")}
    return {"policy": to_tensors(agent.policy(state)), "policy.optimizer": rest}


def with_parameters(agent: Agent, state: TrainState, given: Mapping[str, Mapping[str, np.ndarray]]) -> TrainState:
    """The state with other parameters; RunError where names or shapes do not fit."""
    unknown = [name for name in given if name not in ("policy", "policy.optimizer")]
    if unknown:
        raise UserError(f"set_parameters: unknown part '{unknown[0]}': give 'policy' and perhaps 'policy.optimizer'")
    if "policy.optimizer" in given:
        own = to_tensors(state.algorithm)
        params = {name: value for name, value in own.items() if name.startswith("params/")}
        state = state._replace(algorithm=from_tensors(state.algorithm, params | dict(given["policy.optimizer"])))
    if "policy" in given:
        policy = from_tensors(agent.policy(state), given["policy"])
        algorithm = agent.algorithm.with_weights(state.algorithm, policy.weights)
        state = state._replace(algorithm=algorithm, normaliser=policy.normaliser)
    return state


def standing(trainer: Trainer) -> dict[str, Any]:
    """Which envs a state belongs to, if they can be made again."""
    recipe = trainer.parts.recipe
    return {"engine": recipe.engine, "id": recipe.env.id, "kwargs": recipe.env.kwargs, "n_envs": recipe.n_envs}


def to_file(model: Model) -> tuple[Tensors, Tensors, dict[str, Any]]:
    """Policy, state and description of a model."""
    state = model.state
    trainer = model._standing
    whole = model._lesson is None and trainer is not None and trainer.continues
    assert model._spaces is not None
    source = model._source
    tensors = trainer.parts.program.save(state) if whole and trainer else to_tensors(state._replace(groups=()))
    about = {
        "class": type(model).__name__,
        "arguments": model.values,
        "seed": model.seed,
        "starts": model._starts,
        "clock": (model._clock if model._lesson is None else model._lesson.clock)._asdict(),
        "n_envs": model.n_envs,
        "spaces": spaces_to_json(model._spaces),
        "env": None if source is None or source.settings is None else _portable(source.settings),
        "standing": standing(trainer) if whole and trainer else None,
    }
    return to_tensors(model.agent.policy(state)), tensors, about


def _portable(settings: EnvSettings) -> dict[str, Any] | None:
    """The env's id and kwargs, where JSON can hold them."""
    kwargs = settings.kwargs
    plain = all(value is None or isinstance(value, str | int | float | bool) for value in kwargs.values())
    return {"id": settings.id, "kwargs": kwargs} if plain else None


def from_file(cls: type[M], file: ModelFile, changes: dict[str, Any]) -> M:
    """A model with the saved state. `changes` are arguments to take instead of the saved ones."""
    about = file.about
    if about.get("class") != cls.__name__:
        raise UserError(f"the file holds a {about.get('class')} model: load it with {about.get('class')}.load")
    fixed = [name for name in changes if name in _FIXED]
    if fixed:
        raise UserError(f"{cls.__name__}.load: {fixed[0]} belongs to the saved weights and cannot be changed")
    model = cls.__new__(cls)
    try:
        values = bind(cls.__name__, cls.ARGUMENTS, (), {**about["arguments"], **changes})
        model._set_up(translate.plain_values(cls.__name__, values))
        model.seed = int(about["seed"]) if values["seed"] is None else model.seed
        model.n_envs = int(about["n_envs"])
        model._starts = int(about["starts"])
        model._spaces = spaces_from_json(about["spaces"])
        model._clock = Clock(**about["clock"])
        if about["env"] is not None:
            model._source = rebuilt(EnvSettings.model_validate(about["env"]), model.n_envs)
        envs = about["standing"]
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"the file's description is damaged: {type(error).__name__}: {error}") from error
    model._state = _read_state(model, file)
    if envs is not None:
        model._saved = Standing(file.state, envs)
    return model


def _read_state(model: Model, file: ModelFile) -> TrainState:
    """The saved state without its envs, checked against the shapes that the description implies."""
    shapes = jax.eval_shape(model._act()[0].begin, run_key(0))
    # Arrays without memory: a description from strangers may imply more than the file holds.
    template = jax.tree.map(lambda leaf: np.broadcast_to(np.zeros((), leaf.dtype), leaf.shape), shapes)
    parts, _ = split_tensors(file.state, ["groups/", "key"])
    rest = {name: value for name, value in file.state.items() if not name.startswith("groups/") and name != "key"}
    algorithm, normaliser = from_tensors({"algorithm": template[0], "normaliser": template[1]}, rest).values()
    key = jax.random.wrap_key_data(jnp.asarray(parts[1][""]))
    return TrainState(jax.tree.map(jnp.asarray, algorithm), jax.tree.map(jnp.asarray, normaliser), (), key)
