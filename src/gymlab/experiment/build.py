"""From a recipe to the parts of a run: engine, policy, algorithm, collector, evaluator, plan."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from gymlab.algorithms.base import Algorithm
from gymlab.algorithms.catalogue import ALGORITHMS
from gymlab.core.errors import UserError
from gymlab.core.period import Period
from gymlab.core.types import Array, Spaces
from gymlab.envs.catalogue import find_spec, resolve_id
from gymlab.envs.engines.gymnasium import GymnasiumEngine
from gymlab.envs.engines.jax import JaxEngine
from gymlab.envs.make import import_all, split_wrappers
from gymlab.envs.ports.catalogue import find_port
from gymlab.envs.references import load_reference
from gymlab.envs.settings import EnvSettings
from gymlab.envs.slots import Factory
from gymlab.envs.wrappers.transform import Transform
from gymlab.experiment.jax_setup import choose_device, set_up_jax
from gymlab.experiment.memory import check_memory, rollout_bytes
from gymlab.policies.encoders import Flatten, MakeEncoder
from gymlab.policies.normaliser import Normalising
from gymlab.policies.settings import PolicySettings
from gymlab.recipes.schema import Recipe, Share, Steps
from gymlab.recipes.settings_file import cache_folder
from gymlab.rollout.compiled import CompiledCollector
from gymlab.rollout.evaluate import Abandon, Evaluation, Evaluator
from gymlab.rollout.host import HostCollector, OnStep
from gymlab.training.agent import Agent
from gymlab.training.loop import Plan
from gymlab.training.program import CompiledProgram, HostProgram, Program
from gymlab.training.state import Policy

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
    program: Program
    plan: Plan
    evaluator: Evaluator
    notes: list[str]
    full_budget: bool = False  # no stop before the budget
    trackers: tuple[str, ...] = ()  # where copies go, for the first line

    @property
    def rollout_bytes(self) -> int:
        return rollout_bytes(self.recipe, self.spaces)

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
        settings = self.recipe.eval
        episodes = settings.episodes if kind == "periodic" else settings.final_episodes
        return self.evaluator.evaluate(
            policy, episodes=episodes, seed=seed, max_envs=settings.max_envs, steps=settings.steps, abandon=abandon
        )


def build(
    recipe: Recipe,
    seed: int,
    *,
    factory: Factory | None = None,
    horizon: Steps | None = None,
    on_step: OnStep | None = None,
) -> Parts:
    """Everything but the run directory.

    `factory` gives env objects from Python; `horizon` is where schedules end; `on_step` is called on host engines.
    """
    set_up_jax(cache_folder())
    import_all(recipe.imports)
    engine, reason = make_engine(recipe, seed, factory)
    host = not isinstance(engine, JaxEngine)
    small = max(recipe.policy.hidden, default=0) <= SMALL_NETWORK
    chosen = Chosen(engine.name, reason, *choose_device(recipe.device, host_engine=host, small=small))
    _, transforms = split_wrappers(recipe.env)
    spaces = _transformed(engine.spaces, transforms)
    agent = make_agent(recipe, spaces)
    algorithm = agent.algorithm
    plan = make_plan(recipe, horizon or recipe.budget)
    check_memory(recipe, spaces)
    program: Program
    carry = algorithm.initial_carry(recipe.n_envs)
    if host:
        collector = HostCollector(engine, transforms, agent.act, carry, recipe.n_steps, on_step)
        program = HostProgram(agent, (collector,), plan.hp_names)
    else:
        program = CompiledProgram(
            agent, (CompiledCollector(engine, transforms, agent.act, carry, recipe.n_steps),), plan.hp_names
        )
    evaluator = Evaluator(_evaluation_engines(recipe, factory), transforms, agent.act, algorithm.initial_carry)
    told = _told(recipe, chosen, plan, spaces.max_episode_steps) if factory is None else []  # objects have no id
    notes = [*told, *algorithm.notes()]
    return Parts(recipe, seed, chosen, spaces, agent, program, plan, evaluator, notes)


def make_agent(recipe: Recipe, spaces: Spaces) -> Agent:
    """The algorithm and the normalising of a recipe, for an env with these spaces."""
    make = algorithm_class(recipe.algorithm.name)
    algorithm = make(recipe.algorithm.settings, recipe.policy, spaces, make_encoder(recipe.policy))
    normalising = Normalising(spaces.observation, **recipe.normalize.model_dump())
    return Agent(algorithm, normalising, skips=recipe.on_nan == "skip")


def _told(recipe: Recipe, chosen: Chosen, plan: Plan, limit: int) -> list[str]:
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
    return spec is None or spec.max_episode_steps is None


def make_encoder(policy: PolicySettings) -> MakeEncoder:
    """The encoder a recipe names, or the default."""
    if policy.encoder is None:
        return Flatten
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


def make_plan(recipe: Recipe, horizon: Steps) -> Plan:
    per_update = recipe.n_steps * (recipe.n_envs if recipe.budget.clock == "env_steps" else 1)
    per_horizon = recipe.n_steps * (recipe.n_envs if horizon.clock == "env_steps" else 1)
    schedules = recipe.algorithm.settings.schedules()

    def hyperparameters(update: int) -> Array:
        progress = min(1.0, update * per_horizon / horizon.count)
        return np.array([schedule.at(progress) for schedule in schedules.values()], np.float32)

    wanted = recipe.stop.train_return
    return Plan(
        steps_per_update=recipe.n_steps,
        n_envs=recipe.n_envs,
        updates=math.ceil(recipe.budget.count / per_update),
        stop_return=math.inf if wanted is None else wanted,
        hp_names=list(schedules),
        hyperparameters=hyperparameters,
    )


def make_engine(recipe: Recipe, seed: int, factory: Factory | None) -> tuple[Any, str]:
    """The training engine and why it is this one."""
    port, reason = _compiled_env(recipe, factory)
    if port is not None:
        return JaxEngine(port, recipe.n_envs, use_action_mask=recipe.env.action_mask), reason
    kind, why = _vectorization(recipe, factory)
    reason = f"{reason}; {kind}: {why}"
    if kind == "processes":
        from gymlab.envs.engines.processes import ProcessEngine

        workers = recipe.workers
        return ProcessEngine(recipe.env, recipe.n_envs, seed, workers=workers, imports=recipe.imports), reason
    if recipe.env.timeout != EnvSettings.model_fields["timeout"].default:
        reason += "; env.timeout needs vectorization: processes"
    return GymnasiumEngine(recipe.env, recipe.n_envs, seed, imports=recipe.imports, factory=factory), reason


def _compiled_env(recipe: Recipe, factory: Factory | None) -> tuple[Any, str]:
    """The JAX port to use, or None, and the reason."""
    if recipe.engine == "gymnasium":
        return None, "asked for"
    resolved = resolve_id(recipe.env.id)
    port = find_port(resolved.id, {**resolved.kwargs, **recipe.env.kwargs}, recipe.env.max_episode_steps)
    env_side, _ = split_wrappers(recipe.env)
    if factory is not None:
        blocked = "the env is a Python object"
    elif isinstance(port, str):
        blocked = port
    elif env_side:
        blocked = f"wrappers: '{env_side[0].name}' wraps the Gymnasium env"
    elif recipe.vectorization != "auto":
        blocked = f"vectorization: {recipe.vectorization} steps host envs"
    else:
        return port, "asked for" if recipe.engine == "jax" else "a compiled port exists"
    if recipe.engine == "jax":
        raise UserError(f"engine: jax cannot run this recipe ({blocked}): use engine: auto")
    return None, blocked


def _vectorization(recipe: Recipe, factory: Factory | None) -> tuple[str, str]:
    if factory is not None:
        return "sync", "env objects stay in this process"
    if recipe.vectorization != "auto":
        return recipe.vectorization, "asked for"
    from gymlab.envs.engines.processes import choose_vectorization

    return choose_vectorization(recipe.env, recipe.n_envs, recipe.imports)


def _evaluation_engines(recipe: Recipe, factory: Factory | None) -> Callable[[int, int], GymnasiumEngine]:
    def make(n_envs: int, seed: int) -> GymnasiumEngine:
        if factory is not None:
            raise UserError("an env given as a Python object cannot be evaluated on the side: give its id or its class")
        return GymnasiumEngine(recipe.env, n_envs, seed, evaluation=True, imports=recipe.imports)

    return make


def _transformed(spaces: Spaces, transforms: tuple[Transform, ...]) -> Spaces:
    observation = spaces.observation
    for transform in transforms:
        observation = transform.space(observation)
    return spaces._replace(observation=observation)


def env_description(settings: EnvSettings, limit: int) -> dict[str, Any]:
    """The resolved env stack, for the manifest."""
    from gymlab.envs.make import env_stack, make_env

    env = make_env(settings)
    try:
        facts = settings.model_dump(mode="json", exclude={"id", "max_episode_steps"})
        return {"id": settings.id, "stack": env_stack(env), "max_episode_steps": limit, **facts}
    finally:
        env.close()
