"""What PPO, A2C and REINFORCE share: their envs, their weights, acting, saving and loading."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import IO, Any, ClassVar, Self

import numpy as np

from gymlab.core.clock import Clock
from gymlab.core.errors import UserError
from gymlab.core.rng import generator
from gymlab.core.types import Spaces
from gymlab.envs.settings import EnvSettings
from gymlab.recipes.schema import Recipe
from gymlab.sb3 import arguments, saving
from gymlab.sb3.lesson import Lesson, Trainer
from gymlab.sb3.logger import Logger
from gymlab.sb3.model_file import read_model, write_model
from gymlab.sb3.programs import acting, use_device
from gymlab.sb3.source import Source, make_source
from gymlab.sb3.translate import make_recipe, plain_values
from gymlab.sb3.vec_env import VecEnv
from gymlab.session.predictor import CompiledAgent, Predictor
from gymlab.training.agent import Agent
from gymlab.training.named_tensors import Tensors
from gymlab.training.state import TrainState

_OWN = ("policy", "seed", "engine", "n_envs", "tensorboard_log")  # arguments that become something else


class Model:
    """Weights and envs are made when they are first needed. `values` holds the arguments as plain values."""

    ALGORITHM: ClassVar[str]
    ARGUMENTS: ClassVar[tuple[arguments.Argument, ...]]

    def __init_subclass__(cls) -> None:
        if hasattr(cls, "ARGUMENTS"):
            cls.__signature__ = arguments.signature(cls.ARGUMENTS)  # type: ignore[attr-defined]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        values = arguments.bind(type(self).__name__, self.ARGUMENTS, args, kwargs)
        self._set_up(plain_values(type(self).__name__, values))
        if values["env"] is not None:
            self._use(make_source(type(self).__name__, values["env"], values["n_envs"]))

    def _set_up(self, values: dict[str, Any]) -> None:
        self.values = values
        self.logger = Logger()
        self.seed: int = secrets.randbits(31) if values["seed"] is None else int(values["seed"])
        vars(self).update({name: value for name, value in values.items() if name not in _OWN})
        self.n_envs = values["n_envs"] or 1
        self._source: Source | None = None
        self._spaces: Spaces | None = None
        self._trainers: dict[str, Trainer] = {}
        self._standing: Trainer | None = None  # whose envs stand where the state says
        self._state: TrainState | None = None  # None: there are no weights yet
        self._saved: saving.Standing | None = None  # where the envs of a file stood
        self._clock = Clock()
        self._left_over = 0
        self._starts = 0
        self._lesson: Lesson | None = None
        self._acting: tuple[CompiledAgent, Predictor] | None = None

    def _use(self, source: Source) -> None:
        """Take these envs. What is wrong with them or with the arguments shows now, not at the first update."""
        names = ("_source", "n_envs", "_trainers", "_standing", "_spaces", "_acting")
        before = {name: getattr(self, name) for name in names}
        self._source = source
        self.n_envs = source.n_envs
        self._trainers = {}
        self._standing = None
        self._acting = None
        try:
            if self._needs_objects:
                self._recipe(objects=True)
                self._spaces = source.spaces()
            else:
                self._spaces = self._trainer(objects=False).parts.spaces
            if before["_spaces"] is not None:
                saving.check_spaces(type(self).__name__, before["_spaces"], self._spaces)
        except BaseException:
            vars(self).update(before)
            raise
        for trainer in before["_trainers"].values():
            trainer.close()

    @property
    def observation_space(self) -> Any:
        return None if self._spaces is None else self._spaces.observation

    @property
    def action_space(self) -> Any:
        return None if self._spaces is None else self._spaces.action

    @property
    def engine(self) -> str:
        """The engine of training without a callback: jax (compiled) or gymnasium."""
        return self._recipe(objects=self._needs_objects).engine

    def get_env(self) -> VecEnv | None:
        """The env objects; None for a model loaded without an env that could be made again."""
        return None if self._source is None else self._source.vec_env

    @property
    def env(self) -> VecEnv | None:
        return self.get_env()

    def set_env(self, env: Any, force_reset: bool = True) -> None:
        """Train on another env with the same spaces; its episodes begin anew."""
        del force_reset
        self._use(make_source(type(self).__name__, env))

    @property
    def source(self) -> Source:
        """The envs, or the error that there are none."""
        if self._source is None:
            name = type(self).__name__
            raise UserError(f"{name} has no env: give it one by {name}.load(path, env=env) or model.set_env(env)")
        return self._source

    @property
    def _needs_objects(self) -> bool:
        return self.source.plain(self.values["engine"]) is None

    def _recipe(self, *, objects: bool) -> Recipe:
        source = self.source
        name = type(self).__name__
        env = source.label if objects else source.plain(self.values["engine"])
        assert env is not None
        recipe = make_recipe(name, self.ALGORITHM, self.values, env, n_envs=source.n_envs, time_limit=source.time_limit)
        if not objects and source.port and recipe.engine != "gymnasium":
            return recipe.model_copy(update={"engine": "jax"})
        if recipe.engine == "jax":
            raise UserError(f"{name}: engine='jax' cannot train {env.id} here: use engine='auto'")
        # Spawned env processes would need a __main__ guard in the user's script.
        return recipe.model_copy(update={"engine": "gymnasium", "vectorization": "sync"})

    def _trainer(self, *, objects: bool) -> Trainer:
        key = "objects" if objects else "plain"
        if key not in self._trainers:
            envs, seed = (self.source.vec_env, self._stream_seed()) if objects else (None, self.seed)
            self._trainers[key] = Trainer(self._recipe(objects=objects), seed, envs)
        return self._trainers[key]

    def _stream_seed(self) -> int:
        """Each beginning has its own random streams; those of the first are `gymlab train`'s with the same seed."""
        return int(generator(self.seed, "learn", self._starts).integers(2**31)) if self._starts else self.seed

    @property
    def num_timesteps(self) -> int:
        """Transitions so far."""
        return self._clock.env_steps + self._left_over if self._lesson is None else self._lesson.num_timesteps

    @property
    def state(self) -> TrainState:
        """Weights, optimiser and all else that learning needs, as they are now."""
        if self._lesson is not None and self._lesson.current is not None:
            return self._lesson.current
        if self._state is None:
            self._state = saving.first_state(self._act()[0], self.seed)
        return self._state

    @property
    def agent(self) -> Agent:
        return self._act()[0].agent

    @property
    def policy(self) -> Self:
        """In SB3 the network; here the model itself, which can predict."""
        return self

    def _act(self) -> tuple[CompiledAgent, Predictor]:
        if self._acting is None:
            spaces = self._spaces or self.source.spaces()
            recipe = make_recipe(
                type(self).__name__,
                self.ALGORITHM,
                self.values,
                EnvSettings(id="any"),
                n_envs=self.n_envs,
                time_limit=spaces.max_episode_steps,
            )
            if not self._trainers:
                use_device(recipe)
            found = acting(recipe, spaces)
            self._acting = found, Predictor(found, spaces, self.seed)
        return self._acting

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[np.ndarray, Any]:
        """Actions for one observation or a batch, as the env takes them; `state` is handed back."""
        del episode_start
        found, predictor = self._act()
        policy = found.agent.policy(self.state)
        return predictor(policy, observation, deterministic=deterministic, action_masks=action_masks), state

    def save(self, path: str | Path | IO[bytes], exclude: Any = None, include: Any = None) -> None:
        """Everything needed to act and to go on learning, in one .zip file."""
        arguments.tell_all("save", arguments.SAVE, {"exclude": exclude, "include": include})
        policy, state, about = saving.to_file(self)
        write_model(path, policy, state, about)

    @classmethod
    def load(
        cls,
        path: str | Path | IO[bytes],
        env: Any = None,
        device: Any = "auto",
        custom_objects: Any = None,
        print_system_info: bool = False,
        force_reset: bool = True,
        **kwargs: Any,
    ) -> Self:
        """A saved model. Without `env`, a registered id is made again when it is needed."""
        del force_reset
        given = {"custom_objects": custom_objects, "print_system_info": print_system_info}
        arguments.tell_all("load", arguments.LOAD, given)
        model = saving.from_file(cls, read_model(path), {**kwargs, "device": device})
        if env is not None:
            model._use(make_source(cls.__name__, env))
        return model

    def get_parameters(self) -> dict[str, Tensors]:
        """Weights and optimiser as named arrays."""
        return saving.parameters(self.agent, self.state)

    def set_parameters(
        self, load_path_or_dict: str | Path | dict[str, Tensors], exact_match: bool = True, device: Any = "auto"
    ) -> None:
        """Take over weights (and the optimiser, where it is given) from `get_parameters` or from a saved model."""
        del exact_match, device
        given = load_path_or_dict
        if not isinstance(given, dict):
            given = type(self).load(given).get_parameters()
        self._state = saving.with_parameters(self.agent, self.state, given)
