"""From a recipe to the parts of a run: engine, policy, algorithm, collector, evaluator, plan."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gymlab.algorithms.base import Algorithm
from gymlab.algorithms.registry import ALGORITHMS
from gymlab.core.errors import UserError
from gymlab.core.period import Period
from gymlab.core.types import Array, Spaces
from gymlab.envs.engines.jax import JaxEngine
from gymlab.envs.engines.sync_vector import Factory
from gymlab.envs.make import import_all, split_wrappers
from gymlab.envs.references import load_reference
from gymlab.envs.registry import find_spec, resolve_id
from gymlab.envs.settings import EnvSettings
from gymlab.envs.transform import transformed
from gymlab.envs.wrapper_stacks import WrapperStacks, check_alike, evaluation_settings, wrapper_stacks
from gymlab.networks.encoders import ENCODERS, MakeEncoder, choose_encoder, default_encoder
from gymlab.networks.normalizer import Normalizer
from gymlab.networks.settings import PolicySettings
from gymlab.recipes.project_settings import cache_folder
from gymlab.recipes.schema import EvalSettings, Recipe, Share, Steps
from gymlab.recipes.secrets import require_secrets
from gymlab.session.choose_engine import evaluation_engines, make_engine
from gymlab.session.compile_cache import Compiled, Kept
from gymlab.session.jax_setup import beside_gpu, choose_device, set_up_jax
from gymlab.session.metric_schedule import look_rule
from gymlab.session.rollout_memory import check_memory, rollout_bytes
from gymlab.training.agent import Agent
from gymlab.training.collector_compiled import CompiledCollector
from gymlab.training.collector_host import HostCollector, OnStep
from gymlab.training.compile_time import compile_seconds
from gymlab.training.evaluation import Abandon, Evaluation, Evaluator
from gymlab.training.loop import RunPlan
from gymlab.training.state import Policy
from gymlab.training.trainer import Trainer
from gymlab.training.trainer_compiled import CompiledTrainer
from gymlab.training.trainer_host import HostTrainer
from gymlab.training.update_histograms import HistogramSchedule

if TYPE_CHECKING:
    from gymlab.session.evaluator.shared import Examiners

SMALL_NETWORK = 512  # units of the widest layer


class Chosen(NamedTuple):
    """What `auto` came to, and why."""

    engine: str
    engine_reason: str
    device: str
    device_reason: str


@dataclass
class Parts:
    """A run before it has begun."""

    recipe: Recipe
    seed: int
    chosen: Chosen
    spaces: Spaces
    agent: Agent
    program: Trainer
    plan: RunPlan
    evaluator: Evaluator
    notes: list[str]
    stacks: WrapperStacks | None = None  # None for env objects
    looks: HistogramSchedule = field(default_factory=HistogramSchedule)  # when distributions are taken
    full_budget: bool = False  # no stop before the budget
    together: int = 1  # runs in one vmapped program
    examiners: Examiners | None = None  # evaluation processes that they share
    trackers: tuple[str, ...] = ()  # where copies go, for the first line
    compiled: float = field(default_factory=compile_seconds)  # seconds spent compiling before these parts were

    @property
    def rollout_bytes(self) -> int:
        return rollout_bytes(self.recipe, self.spaces)

    @property
    def budget_env_steps(self) -> int:
        budget = self.recipe.budget
        return budget.count * (1 if budget.clock == "env_steps" else self.recipe.n_envs)

    def period(self, cadence: Steps | Share, not_before: Steps | Share | None = None) -> Period:
        """A recipe's cadence in updates."""
        every, per_update = self._steps(cadence)
        start = 0.0 if not_before is None else self._steps(not_before)[0]
        return Period(every, per_update, math.ceil(start))

    def _steps(self, cadence: Steps | Share) -> tuple[float, int]:
        budget = self.recipe.budget
        count, clock = (
            (cadence.share * budget.count, budget.clock)
            if isinstance(cadence, Share)
            else (cadence.count, cadence.clock)
        )
        return count, self.plan.steps_per_update * (self.plan.n_envs if clock == "env_steps" else 1)

    def evaluate(self, policy: Policy, kind: str, seed: int, abandon: Abandon = lambda: False) -> Evaluation:
        """Score a policy the way the recipe says."""
        return score(self.evaluator, self.recipe.eval, policy, kind, seed, abandon)


def score(
    evaluator: Evaluator, settings: EvalSettings, policy: Policy, kind: str, seed: int, abandon: Abandon
) -> Evaluation:
    """One evaluation of a kind, the way a recipe says."""
    episodes = settings.episodes if kind == "periodic" else settings.final_episodes
    return evaluator.evaluate(
        policy, episodes=episodes, seed=seed, max_envs=settings.max_envs, steps=settings.steps, abandon=abandon
    )


def build(
    recipe: Recipe,
    seed: int,
    *,
    factory: Factory | None = None,
    horizon: Steps | None = None,
    on_step: OnStep | None = None,
    kept: Kept | None = None,
) -> Parts:
    """Everything but the run directory.

    `factory` gives env objects from Python; `horizon` is where schedules end; `on_step` is called on host engines.
    Of `kept` the compiled parts of an earlier run are taken where one had this shape, and these are put there.
    """
    require_secrets(recipe)
    set_up_jax(cache_folder())
    import_all(recipe.imports)
    engine, reason = make_engine(recipe, seed, factory)
    host = not isinstance(engine, JaxEngine)
    small = is_small(recipe, engine.spaces)
    chosen = Chosen(engine.name, reason, *choose_device(recipe.device, host_engine=host, small=small))
    _, transforms = split_wrappers(recipe.env)
    spaces = transformed(engine.spaces, transforms)
    plan = make_plan(recipe, horizon or recipe.budget)
    check_memory(recipe, spaces)
    looks = HistogramSchedule()
    compiled = None if kept is None else kept.find(recipe)
    if compiled is None:
        compiled = _compiled(recipe, engine, plan, looks, factory, on_step)
    elif isinstance(compiled.program, HostTrainer):
        compiled = compiled._replace(program=compiled.program.again((engine,), looks))
    else:
        compiled = compiled._replace(program=compiled.program.again(looks))
    if kept is not None:
        kept.keep(recipe, compiled)
    agent, program, evaluator = compiled
    told = _told(recipe, chosen, plan, spaces.max_episode_steps) if factory is None else []  # objects have no id
    if recipe.policy.encoder is None and default_encoder(spaces.observation) is not None:
        told.append(f"pictures are read by policy.encoder: {default_encoder(spaces.observation)}")
    stacks = wrapper_stacks(recipe.env) if factory is None else None
    if stacks is not None:
        check_alike(stacks, recipe.env, engine.spaces, spaces)
        told += [stacks.note] if stacks.note else []
    notes = [*told, *agent.algorithm.notes()]
    parts = Parts(recipe, seed, chosen, spaces, agent, program, plan, evaluator, notes, stacks, looks)
    looks.rule = look_rule(parts)
    return parts


def _compiled(
    recipe: Recipe,
    engine: Any,
    plan: RunPlan,
    looks: HistogramSchedule,
    factory: Factory | None,
    on_step: OnStep | None,
) -> Compiled:
    _, transforms = split_wrappers(recipe.env)
    agent = make_agent(recipe, transformed(engine.spaces, transforms))
    carry = agent.algorithm.initial_carry(recipe.n_envs)
    program: CompiledTrainer | HostTrainer
    if isinstance(engine, JaxEngine):
        collected = CompiledCollector(engine, transforms, agent.act, carry, recipe.n_steps)
        program = CompiledTrainer(agent, (collected,), plan.hp_names, looks)
    else:
        collector = HostCollector(engine, transforms, agent.act, carry, recipe.n_steps, on_step)
        program = HostTrainer(agent, (collector,), plan.hp_names, looks)
    return Compiled(agent, program, make_evaluator(recipe, agent, engine.spaces, factory))


def make_evaluator(recipe: Recipe, agent: Agent, spaces: Spaces, factory: Factory | None = None) -> Evaluator:
    """What scores policies of a recipe. Its envs are on the host, where a small network answers sooner than a GPU."""
    _, shown = split_wrappers(evaluation_settings(recipe.env))
    device = beside_gpu() if is_small(recipe, spaces) else None
    engines = evaluation_engines(recipe, factory)
    return Evaluator(engines, shown, agent.act, agent.algorithm.initial_carry, device)


def is_small(recipe: Recipe, spaces: Spaces) -> bool:
    """Whether a step of the network costs less than the way to a GPU and back."""
    return max(recipe.policy.hidden, default=0) <= SMALL_NETWORK and default_encoder(spaces.observation) is None


def make_agent(recipe: Recipe, spaces: Spaces) -> Agent:
    """The algorithm and the normalising of a recipe, for an env with these spaces."""
    make = algorithm_class(recipe.algorithm.name)
    algorithm = make(recipe.algorithm.settings, recipe.policy, spaces, make_encoder(recipe.policy, spaces.observation))
    normalising = Normalizer(spaces.observation, **recipe.normalize.model_dump())
    return Agent(algorithm, normalising, skips=recipe.on_nan == "skip", statistics=recipe.metrics.statistics)


def _told(recipe: Recipe, chosen: Chosen, plan: RunPlan, limit: int) -> list[str]:
    """What `auto` and the budget came to, where it is not plain."""
    notes = [] if chosen.engine == "jax" else [f"{chosen.engine} engine: {chosen.engine_reason}"]
    steps = plan.updates * plan.steps_per_update
    steps *= plan.n_envs if recipe.budget.clock == "env_steps" else 1
    if recipe.env.max_episode_steps is None and _no_registered_limit(recipe.env):
        notes.append(f"{recipe.env.id} has no time limit: episodes are cut after {limit} steps (env.max_episode_steps)")
    if steps != recipe.budget.count:
        notes.append(f"the budget ends at {steps} {recipe.budget.clock}: updates are whole")
    return notes


def _no_registered_limit(env: EnvSettings) -> bool:
    spec = find_spec(resolve_id(env.id).id)
    return spec is None or (spec.max_episode_steps is None and "max_num_frames_per_episode" not in spec.kwargs)


def make_encoder(policy: PolicySettings, space: Any) -> MakeEncoder:
    """The encoder a recipe names, or the one that suits what is seen."""
    if policy.encoder is None or policy.encoder in ENCODERS:
        return choose_encoder(space, policy.encoder)
    import equinox as eqx

    found = load_reference(policy.encoder)
    if not (isinstance(found, type) and issubclass(found, eqx.Module)):
        raise UserError(f"policy.encoder: '{policy.encoder}' is not an equinox.Module class")
    return found


def algorithm_class(name: str) -> type[Algorithm]:
    """The class behind an algorithm block's name or reference."""
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    found = load_reference(name)
    assert isinstance(found, type)
    assert issubclass(found, Algorithm)
    return found


def make_plan(recipe: Recipe, horizon: Steps) -> RunPlan:
    per_update = recipe.n_steps * (recipe.n_envs if recipe.budget.clock == "env_steps" else 1)
    per_horizon = recipe.n_steps * (recipe.n_envs if horizon.clock == "env_steps" else 1)
    schedules = recipe.algorithm.settings.schedules()

    def hyperparameters(update: int) -> Array:
        progress = min(1.0, update * per_horizon / horizon.count)
        return np.array([schedule.at(progress) for schedule in schedules.values()], np.float32)

    wanted = recipe.stop.train_return
    return RunPlan(
        steps_per_update=recipe.n_steps,
        n_envs=recipe.n_envs,
        updates=math.ceil(recipe.budget.count / per_update),
        stop_return=math.inf if wanted is None else wanted,
        hp_names=list(schedules),
        hyperparameters=hyperparameters,
    )
