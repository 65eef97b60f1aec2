"""The models PPO, A2C and REINFORCE, with Stable-Baselines3's methods: learn, predict, save, load."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import warnings
from pathlib import Path
from typing import IO, Any, ClassVar, Self

import numpy as np

from gymlab.core.clock import Clock
from gymlab.core.errors import UserError
from gymlab.core.rng import generator
from gymlab.core.types import Spaces
from gymlab.envs.settings import EnvSettings
from gymlab.recipes.schema import Recipe, Steps
from gymlab.sb3 import arguments, saving
from gymlab.sb3.arguments import make_recipe, plain_values
from gymlab.sb3.callbacks import BaseCallback, as_callback
from gymlab.sb3.env_source import EnvSource, make_source, seed_global_generators
from gymlab.sb3.logger import Logger, Tables
from gymlab.sb3.saving import read_model, write_model
from gymlab.sb3.training import Aborted, LearnCall, TrainingSetup, compiled_agent, use_device
from gymlab.sb3.vec_env import VecEnv
from gymlab.session.build import make_plan
from gymlab.session.predictor import CompiledAgent, Predictor
from gymlab.training.agent import Agent
from gymlab.training.events import Feature
from gymlab.training.loop import Loop
from gymlab.training.named_tensors import Tensors
from gymlab.training.run_plan import RunPlan
from gymlab.training.state import TrainState

_OWN = ("policy", "seed", "engine", "n_envs", "tensorboard_log")  # arguments that are not attributes of the same name


class SlowerEngine(UserWarning):
    """Training uses the host engine although there is a compiled env."""


@dataclasses.dataclass
class ModelEnvs:
    """The envs of a model, and what is built for them."""

    n_envs: int
    source: EnvSource | None = None
    spaces: Spaces | None = None
    setups: dict[str, TrainingSetup] = dataclasses.field(default_factory=dict)
    current: TrainingSetup | None = None  # the one whose envs are where the model's state says
    compiled: tuple[CompiledAgent, Predictor] | None = None


class Model:
    """Envs, weights, acting, saving and loading. Weights and envs are made on first use.

    `values` holds the arguments as JSON values.
    """

    ALGORITHM: ClassVar[str]
    ARGUMENTS: ClassVar[tuple[arguments.Argument, ...]]

    def __init_subclass__(cls) -> None:
        if hasattr(cls, "ARGUMENTS"):
            cls.__signature__ = arguments.signature(cls.ARGUMENTS)  # type: ignore[attr-defined]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        values = arguments.bind(type(self).__name__, self.ARGUMENTS, args, kwargs)
        self._init_from(plain_values(type(self).__name__, values))
        if values["env"] is not None:
            self._use(make_source(type(self).__name__, values["env"], values["n_envs"]))

    def _init_from(self, values: dict[str, Any]) -> None:
        self.values = values
        self.logger = Logger()
        self.seed: int = secrets.randbits(31) if values["seed"] is None else int(values["seed"])
        vars(self).update({name: value for name, value in values.items() if name not in _OWN})
        self._envs = ModelEnvs(n_envs=values["n_envs"] or 1)
        self._state: TrainState | None = None  # None until the weights are made
        self._saved: saving.SavedState | None = None  # of the file the model was loaded from
        self._clock = Clock()
        self._left_over = 0
        self._starts = 0
        self._call: LearnCall | None = None

    def _use(self, source: EnvSource) -> None:
        """Train on these envs. Errors in them or in the arguments are raised now, not at the first update."""
        before = self._envs
        self._envs = ModelEnvs(source.n_envs, source)
        if self.values["seed"] is not None:
            source.seed_by(self.seed)
            seed_global_generators(self.seed)
        with contextlib.ExitStack() as undo:
            undo.callback(setattr, self, "_envs", before)
            if self._needs_objects:
                self._recipe(objects=True)
                self._envs.spaces = source.spaces()
            else:
                self._envs.spaces = self._setup(objects=False).parts.spaces
            if before.spaces is not None:
                saving.check_spaces(type(self).__name__, before.spaces, self._envs.spaces)
            undo.pop_all()
        for setup in before.setups.values():
            setup.close()

    @property
    def n_envs(self) -> int:
        return self._envs.n_envs

    @property
    def observation_space(self) -> Any:
        return None if self._envs.spaces is None else self._envs.spaces.observation

    @property
    def action_space(self) -> Any:
        return None if self._envs.spaces is None else self._envs.spaces.action

    @property
    def engine(self) -> str:
        """The engine of training without a callback: jax (compiled) or gymnasium."""
        return self._recipe(objects=self._needs_objects).engine

    def get_env(self) -> VecEnv | None:
        """The env objects; None for a model loaded without an env that could be made again."""
        return None if self._envs.source is None else self._envs.source.vec_env

    @property
    def env(self) -> VecEnv | None:
        return self.get_env()

    def set_env(self, env: Any, force_reset: bool = True) -> None:
        """Train on another env with the same spaces; its episodes begin anew."""
        del force_reset
        self._use(make_source(type(self).__name__, env))

    @property
    def source(self) -> EnvSource:
        """The envs; UserError if there are none."""
        if self._envs.source is None:
            name = type(self).__name__
            raise UserError(f"{name} has no env: give it one by {name}.load(path, env=env) or model.set_env(env)")
        return self._envs.source

    @property
    def _needs_objects(self) -> bool:
        return self.source.training_settings(self.values["engine"]) is None

    def _recipe(self, *, objects: bool) -> Recipe:
        source = self.source
        name = type(self).__name__
        env = source.label if objects else source.training_settings(self.values["engine"])
        assert env is not None
        recipe = make_recipe(name, self.ALGORITHM, self.values, env, n_envs=source.n_envs, time_limit=source.time_limit)
        if not objects and source.port and recipe.engine != "gymnasium":
            return recipe.model_copy(update={"engine": "jax"})
        if recipe.engine == "jax":
            raise UserError(f"{name}: engine='jax' cannot train {env.id} here: use engine='auto'")
        # Spawned env processes would need a __main__ guard in the user's script.
        return recipe.model_copy(update={"engine": "gymnasium", "vectorization": "sync"})

    def _setup(self, *, objects: bool) -> TrainingSetup:
        key = "objects" if objects else "plain"
        if key not in self._envs.setups:
            envs, seed = (self.source.vec_env, self._stream_seed()) if objects else (None, self.seed)
            self._envs.setups[key] = TrainingSetup(self._recipe(objects=objects), seed, envs)
        return self._envs.setups[key]

    def _stream_seed(self) -> int:
        """Each start has its own random streams; those of the first equal `gymlab train`'s with the same seed."""
        return int(generator(self.seed, "learn", self._starts).integers(2**31)) if self._starts else self.seed

    @property
    def num_timesteps(self) -> int:
        """Transitions so far."""
        return self._clock.env_steps + self._left_over if self._call is None else self._call.num_timesteps

    @property
    def state(self) -> TrainState:
        """The current weights, optimiser state and everything else that learning needs."""
        if self._call is not None and self._call.current is not None:
            return self._call.current
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
        if self._envs.compiled is None:
            spaces = self._envs.spaces or self.source.spaces()
            recipe = make_recipe(
                type(self).__name__,
                self.ALGORITHM,
                self.values,
                EnvSettings(id="any"),
                n_envs=self.n_envs,
                time_limit=spaces.max_episode_steps,
            )
            if not self._envs.setups:
                use_device(recipe)
            found = compiled_agent(recipe, spaces)
            self._envs.compiled = found, Predictor(found, spaces, self.seed)
        return self._envs.compiled

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[np.ndarray, Any]:
        """Actions for one observation or a batch, as the env takes them, and the memory to hand in at the next step."""
        found, predictor = self._act()
        policy = found.agent.policy(self.state)
        return predictor(
            policy,
            observation,
            deterministic=deterministic,
            action_masks=action_masks,
            state=state,
            episode_start=episode_start,
        )

    def save(self, path: str | Path | IO[bytes], exclude: Any = None, include: Any = None) -> None:
        """Write everything needed to act and to continue learning to one .zip file."""
        arguments.check_arguments("save", arguments.SAVE, {"exclude": exclude, "include": include})
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
        ignored = {"custom_objects": custom_objects, "print_system_info": print_system_info}
        arguments.check_arguments("load", arguments.LOAD, ignored)
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
        """Set weights (and the optimiser state, if included) from `get_parameters` or from a saved model."""
        del exact_match, device
        parts = load_path_or_dict
        if not isinstance(parts, dict):
            parts = type(self).load(parts).get_parameters()
        self._state = saving.with_parameters(self.agent, self.state, parts)


class Learner(Model):
    """A model with `learn`, which runs the loop of every run from the model's state."""

    LOG_INTERVAL: ClassVar[int] = 1

    def learn(
        self,
        total_timesteps: int,
        callback: Any = None,
        log_interval: int | None = None,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
        run: str | bool | None = None,
        runs_dir: str | Path | None = None,
    ) -> Self:
        """Train for at least this many transitions, in whole rollouts. Keeps no run unless `run` asks for one."""
        del tb_log_name
        if not total_timesteps >= 1:
            raise UserError(f"learn: total_timesteps={total_timesteps} must be at least 1")
        listener = as_callback(callback, progress_bar=progress_bar)
        setup = self._choose(listener, run)
        state, clock = self._begin(setup, reset=reset_num_timesteps)
        budget = Steps(count=clock.env_steps + int(total_timesteps))
        recipe = setup.parts.recipe.model_copy(update={"budget": budget})
        plan = make_plan(recipe, budget)
        setup.parts.histogram_schedule.rule = lambda _: False  # a session of a run sets its own
        call = LearnCall(self, setup, listener, budget.count)
        features: list[Feature] = [call]
        if self.values["verbose"]:
            features.append(Tables(self.logger, log_interval or self.LOG_INTERVAL))
        self._call = call
        try:
            call.begin(state, clock)
            if run:
                self._run(setup, recipe, plan, features, (run, runs_dir))
            else:
                Loop(call, plan, features).run(state, clock)
        except Aborted:
            pass
        finally:
            self._finish(setup, call)
        return self

    def _choose(self, callback: BaseCallback | None, run: str | bool | None) -> TrainingSetup:
        """The setup this call needs; printed if verbose, with a warning if slower than the compiled env."""
        per_step = callback is not None and callback.per_step
        objects = per_step or self._needs_objects
        if run and objects:
            raise UserError(
                "learn: a run can be kept of an env by its id and without callbacks for every step: "
                "use `gymlab train` or leave out run="
            )
        if per_step and not self._needs_objects and self.engine == "jax":
            warnings.warn(
                f"{type(callback).__name__} is called at every step: training on the host engine (Gymnasium) instead "
                "of the compiled env. With `per_step = False` in its class it is called once per update instead",
                SlowerEngine,
                stacklevel=3,
            )
        setup = self._setup(objects=objects)
        use_device(setup.parts.recipe)
        if self.values["verbose"]:
            chosen = setup.parts.chosen
            spaces = setup.parts.spaces
            print(
                f"Training on {setup.parts.recipe.env.id} with the {chosen.engine} engine on the {chosen.device}, "
                f"episodes of at most {spaces.max_episode_steps} steps"
            )
        return setup

    def _begin(self, setup: TrainingSetup, *, reset: bool) -> tuple[TrainState, Clock]:
        """The state this call starts from: the model's own, the saved one, or with new episodes."""
        self._envs.spaces = setup.parts.spaces
        self._left_over = 0
        program = setup.parts.program
        saved = self._saved
        self._saved = None
        if not reset and self._envs.current is setup and setup.continues:
            assert self._state is not None
            return self._state, self._clock
        if saved is not None and saved.envs == saving.env_identity(setup):
            # Also before a reset: episode numbers then continue, and no episode is played twice.
            state, _ = program.load(program.start(self.seed), saved.tensors)
            if not reset:
                return state, self._clock
        begun = program.start(self._stream_seed(), ahead=True)
        self._starts += 1
        if self._state is None:
            return begun, Clock()
        state = saving.with_learnt(setup.parts.agent, begun, self._state)
        if reset:
            return state, Clock()
        return state._replace(key=self._state.key), self._clock

    def _finish(self, setup: TrainingSetup, call: LearnCall) -> None:
        self._state = call.current
        self._clock = call.clock
        self._left_over = call.steps * self.n_envs  # of an unfinished rollout
        self._envs.current = setup if call.whole else None
        self._call = None
        call.end()

    def _run(
        self, setup: TrainingSetup, recipe: Recipe, plan: RunPlan, features: list[Feature], named: tuple[Any, Any]
    ) -> None:
        """Train with a run directory, as `gymlab train` writes it."""
        from gymlab.envs.registry import spec_threshold
        from gymlab.recipes.project_settings import runs_folder
        from gymlab.runs.store import RunStore
        from gymlab.session.run_guard import guard_run
        from gymlab.session.session import Options, Position, Session

        run, folder = named
        call = self._call
        assert call is not None
        assert call.current is not None
        env = recipe.env.model_copy(update={"solved_at": spec_threshold(recipe.env.id)})
        recipe = recipe.model_copy(update={"env": env})
        parts = dataclasses.replace(setup.parts, recipe=recipe, program=call, plan=plan)
        options = Options(seed=self.seed, full_budget=True)
        position = Position(call.current, call.clock, horizon=recipe.budget)
        run_id = run if isinstance(run, str) else None
        with guard_run() as guard, RunStore.create(folder or runs_folder(), run_id, name=recipe.name) as store:
            session = Session(parts, store, options, position, guard, features)
            session.write_manifest()
            session.run()


class PPO(Learner):
    """Proximal policy optimisation, with Stable-Baselines3's arguments and defaults."""

    ALGORITHM = "ppo"
    ARGUMENTS = arguments.PPO


class A2C(Learner):
    """Advantage actor-critic, with Stable-Baselines3's arguments and defaults."""

    ALGORITHM = "a2c"
    ARGUMENTS = arguments.A2C
    LOG_INTERVAL = 100


class REINFORCE(Learner):
    """Monte-Carlo policy gradient over whole episodes; SB3 has none, so the arguments are of its kind."""

    ALGORITHM = "reinforce"
    ARGUMENTS = arguments.REINFORCE


MODELS = {model.__name__: model for model in (PPO, A2C, REINFORCE)}
