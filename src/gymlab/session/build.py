"""Builds the parts of a run from its recipe: engine, agent, trainer, evaluator, plan, and the memory it needs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np

from gymlab.algorithms.base import Algorithm
from gymlab.algorithms.optimizers import MakeOptimizer, check_optimizer
from gymlab.algorithms.registry import ALGORITHMS
from gymlab.algorithms.settings import OPTIMIZER_NAMES
from gymlab.core.clock import Clock, StepClock
from gymlab.core.errors import UserError
from gymlab.core.period import Period
from gymlab.core.types import Array, Space, Spaces, Tree
from gymlab.envs.engines.base import HostEngine
from gymlab.envs.engines.jax import JaxEngine
from gymlab.envs.engines.sync_vector import Factory
from gymlab.envs.make import import_all, split_wrappers
from gymlab.envs.ports.port import JaxEnv
from gymlab.envs.references import load_reference
from gymlab.envs.transform import transformed
from gymlab.envs.wrapper_stacks import WrapperStacks, check_alike, evaluation_settings, wrapper_stacks
from gymlab.experience.space_arrays import zero_action, zero_obs
from gymlab.networks.encoders import ENCODERS, MakeEncoder, choose_encoder, default_encoder, describe_pictures
from gymlab.networks.normalizer import Normalizer
from gymlab.networks.settings import PolicySettings
from gymlab.recipes.project_settings import cache_folder
from gymlab.recipes.resolve import read_run_recipe
from gymlab.recipes.schema import MetricsSettings, Recipe, Share, Steps
from gymlab.recipes.secrets import require_secrets
from gymlab.runs.checkpoints import load_checkpoint
from gymlab.runs.manifest import read_manifest
from gymlab.runs.paths import RunPaths
from gymlab.session.choose_engine import evaluation_engines, make_engine
from gymlab.session.compile_cache import CompileCache, CompiledParts
from gymlab.session.jax_setup import choose_device, cpu_beside_gpu, set_up_jax
from gymlab.session.run_summary import choice_notes, shaping_notes
from gymlab.session.unread_settings import unread_settings_note
from gymlab.training.agent import Agent
from gymlab.training.collector_compiled import CompiledCollector
from gymlab.training.collector_host import HostCollector, OnStep
from gymlab.training.compile_time import compile_seconds
from gymlab.training.evaluation import WAYS, Abandon, Evaluation, Evaluator
from gymlab.training.evaluation_compiled import CompiledEvaluator
from gymlab.training.named_tensors import from_tensors
from gymlab.training.run_plan import RunPlan
from gymlab.training.state import Policy
from gymlab.training.trainer import Trainer
from gymlab.training.trainer_compiled import CompiledTrainer
from gymlab.training.trainer_host import HostTrainer
from gymlab.training.update_histograms import HistogramSchedule, UpdateRule

if TYPE_CHECKING:
    from gymlab.session.evaluator.pool import EvaluatorPool

SMALL_NETWORK = 512  # units of the widest layer
FINAL_EPISODES = 100  # of what decides: a confirming evaluation, and a final one that training pays for
MOST_ROWS = 20_000  # of a run's metrics


class EngineChoice(NamedTuple):
    """The engine and device of a run, and why these."""

    engine: str
    engine_reason: str
    device: str
    device_reason: str


@dataclass
class Parts:
    """A run, ready to start."""

    recipe: Recipe
    seed: int
    chosen: EngineChoice
    spaces: Spaces
    agent: Agent
    program: Trainer
    plan: RunPlan
    evaluator: Evaluator
    notes: list[str]
    stacks: WrapperStacks | None = None  # None for env objects
    histogram_schedule: HistogramSchedule = field(default_factory=HistogramSchedule)
    full_budget: bool = False  # no stop before the budget
    vmap_size: int = 1  # runs in one vmapped program
    evaluator_pool: EvaluatorPool | None = None  # evaluation processes shared by these runs
    trackers: tuple[str, ...] = ()  # descriptions, for the header line
    compile_seconds_before: float = field(
        default_factory=compile_seconds
    )  # the process's total when the parts were built

    @property
    def rollout_bytes(self) -> int:
        return rollout_bytes(self.recipe, self.spaces)

    def period(self, cadence: Steps | Share, not_before: Steps | Share | None = None) -> Period:
        """A recipe's cadence as a period of updates."""
        every, clock = self._steps(cadence)
        start = 0.0 if not_before is None else self._steps(not_before)[0]
        size = self.plan.steps_per_update * (self.plan.n_envs if clock == "env_steps" else 1)
        return Period(every, clock, size, math.ceil(start))

    def _steps(self, cadence: Steps | Share) -> tuple[float, StepClock]:
        budget = self.recipe.budget
        if isinstance(cadence, Share):
            return cadence.share * budget.count, budget.clock
        return cadence.count, cadence.clock

    def evaluate(self, policy: Policy, kind: str, seed: int, abandon: Abandon = lambda: False) -> Evaluation:
        """Evaluate a policy with the recipe's settings."""
        limit = self.spaces.max_episode_steps
        return run_evaluation(self.evaluator, self.recipe, limit, policy, kind, seed, abandon)


def evaluation_episodes(recipe: Recipe, kind: str, max_episode_steps: int) -> int:
    """The episodes of an evaluation, in each way of acting.

    By itself a final one costs no more env steps than the training it ends, however long its episodes become, unless
    the periodic ones do too: fewer episodes than theirs prove nothing.
    """
    settings = recipe.eval
    if kind == "periodic":
        return settings.episodes
    if settings.final_episodes != "auto":
        return settings.final_episodes
    affordable = recipe.budget_env_steps // (len(WAYS) * max_episode_steps)
    return max(settings.episodes, min(FINAL_EPISODES, affordable)) if kind == "final" else FINAL_EPISODES


def run_evaluation(
    evaluator: Evaluator, recipe: Recipe, limit: int, policy: Policy, kind: str, seed: int, abandon: Abandon
) -> Evaluation:
    """One evaluation of a kind, with a recipe's settings; `limit`: the most steps of an episode.

    A periodic one is compiled where the env has a port; what decides, the confirming and the final one, never is.
    """
    settings = recipe.eval
    episodes = evaluation_episodes(recipe, kind, limit)
    if kind == "periodic" and evaluator.compiled is not None and settings.steps is None:
        return evaluator.compiled.evaluate(
            policy, episodes=episodes, seed=seed, max_envs=settings.max_envs, abandon=abandon
        )
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
    compile_cache: CompileCache | None = None,
) -> Parts:
    """Everything but the run directory.

    `factory` makes env objects from Python; `horizon` is where schedules end; `on_step` is called on host engines.
    Compiled parts of an earlier run of the same shape are taken from `compile_cache`; new ones are stored there.
    """
    require_secrets(recipe)
    set_up_jax(cache_folder())
    import_all(recipe.imports)
    engine, reason = make_engine(recipe, seed, factory)
    host = not isinstance(engine, JaxEngine)
    small = is_small(recipe, engine.spaces)
    chosen = EngineChoice(engine.name, reason, *choose_device(recipe.device, host_engine=host, small=small))
    _, transforms = split_wrappers(recipe.env)
    spaces = transformed(engine.spaces, transforms)
    plan = make_plan(recipe, horizon or recipe.budget)
    check_memory(recipe, spaces)
    schedule = HistogramSchedule()
    compiled = None if compile_cache is None else compile_cache.get(recipe)
    if compiled is None:
        compiled = _compiled_parts(recipe, engine, plan, schedule, factory, on_step)
    elif isinstance(compiled.program, HostTrainer):
        assert isinstance(engine, HostEngine), "programs of the two kinds have different keys"
        compiled = compiled._replace(program=compiled.program.again((engine,), schedule))
    else:
        compiled = compiled._replace(program=compiled.program.again(schedule))
    if compile_cache is not None:
        compile_cache.put(recipe, compiled)
    agent, program, evaluator = compiled
    notes = [] if factory is not None else choice_notes(recipe, chosen, spaces.max_episode_steps)
    if recipe.policy.encoder is None and default_encoder(spaces.observation) is not None:
        encoder = default_encoder(spaces.observation)
        notes.append(f"pictures are read as {describe_pictures(spaces.observation)} by policy.encoder: {encoder}")
    stacks = wrapper_stacks(recipe.env) if factory is None else None
    if stacks is not None:
        check_alike(stacks, recipe.env, engine.spaces, spaces)
        notes += stacks.notes
    notes += agent.algorithm.notes()
    notes += shaping_notes(recipe, transforms)
    unread = unread_settings_note(recipe, spaces, engine.name)
    notes += [unread] if unread else []
    parts = Parts(recipe, seed, chosen, spaces, agent, program, plan, evaluator, notes, stacks, schedule)
    schedule.rule = histogram_rule(parts, Clock())  # a session that begins later sets its own
    return parts


def load_run(paths: RunPaths, which: str) -> tuple[Parts, Policy, str]:
    """A run's parts, the policy of one of its checkpoints, and that checkpoint's name."""
    recipe = read_run_recipe(paths.recipe)
    loaded = load_checkpoint(paths, which)
    parts = build(recipe, read_manifest(paths)["seed"])
    template = parts.agent.policy(parts.program.start(parts.seed))
    return parts, from_tensors(template, loaded.policy), loaded.path.name


def _compiled_parts(
    recipe: Recipe,
    engine: HostEngine | JaxEngine,
    plan: RunPlan,
    schedule: HistogramSchedule,
    factory: Factory | None,
    on_step: OnStep | None,
) -> CompiledParts:
    _, transforms = split_wrappers(recipe.env)
    agent = make_agent(recipe, transformed(engine.spaces, transforms))
    carry = agent.algorithm.initial_carry(recipe.n_envs)
    program: CompiledTrainer | HostTrainer
    if isinstance(engine, JaxEngine):
        collected = CompiledCollector(engine, transforms, agent.act, carry, recipe.n_steps)
        program = CompiledTrainer(agent, (collected,), plan.hp_names, schedule)
    else:
        collector = HostCollector(engine, transforms, agent.act, carry, recipe.n_steps, on_step)
        program = HostTrainer(agent, (collector,), plan.hp_names, schedule)
    port = engine.env if isinstance(engine, JaxEngine) else None
    return CompiledParts(agent, program, make_evaluator(recipe, agent, engine.spaces, port, factory))


def make_evaluator(
    recipe: Recipe, agent: Agent, spaces: Spaces, port: JaxEnv | None, factory: Factory | None = None
) -> Evaluator:
    """Evaluates policies of a recipe; on `port` too, where training steps one.

    Gymnasium envs are on the host; a small network runs there too, which is faster.
    """
    _, transforms = split_wrappers(evaluation_settings(recipe.env))
    device = cpu_beside_gpu() if is_small(recipe, spaces) else None
    carry = agent.algorithm.initial_carry
    compiled = None
    if port is not None:
        masked = recipe.env.action_mask
        compiled = CompiledEvaluator(port, transforms, agent.act, carry, use_action_mask=masked, device=device)
    return Evaluator(evaluation_engines(recipe, factory), transforms, agent.act, carry, device, compiled)


def is_small(recipe: Recipe, spaces: Spaces) -> bool:
    """Whether a step of the network costs less than a transfer to a GPU and back."""
    return max(recipe.policy.hidden, default=0) <= SMALL_NETWORK and default_encoder(spaces.observation) is None


def make_agent(recipe: Recipe, spaces: Spaces) -> Agent:
    """The algorithm and the normaliser of a recipe, for an env with these spaces."""
    make = algorithm_class(recipe.algorithm.name)
    settings = recipe.algorithm.settings
    encoder = make_encoder(recipe.policy, spaces.observation)
    algorithm = make(settings, recipe.policy, spaces, encoder, _users_optimizer(settings.optimizer))
    normalising = Normalizer(spaces.observation, **recipe.normalize.model_dump())
    return Agent(algorithm, normalising, skips=recipe.on_nan == "skip", statistics=recipe.metrics.statistics)


def make_encoder(policy: PolicySettings, space: Space) -> MakeEncoder:
    """The encoder a recipe names, or the default one for an observation space."""
    if policy.encoder is None or policy.encoder in ENCODERS:
        return choose_encoder(space, policy.encoder)
    import equinox as eqx

    found = load_reference(policy.encoder)
    if not (isinstance(found, type) and issubclass(found, eqx.Module)):
        raise UserError(f"policy.encoder: '{policy.encoder}' is not an equinox.Module class")
    return found


def _users_optimizer(name: str) -> MakeOptimizer | None:
    return None if name in OPTIMIZER_NAMES else check_optimizer(name, load_reference(name))


def algorithm_class(name: str) -> type[Algorithm]:
    """The class behind an algorithm block's name or reference."""
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    found = load_reference(name)
    assert isinstance(found, type)
    assert issubclass(found, Algorithm)
    return found


def make_plan(recipe: Recipe, horizon: Steps) -> RunPlan:
    schedules = recipe.algorithm.settings.schedules()

    def hyperparameters(progress: float) -> Array:
        return np.array([schedule.at(progress) for schedule in schedules.values()], np.float32)

    train_return = recipe.stop.train_return
    return RunPlan(
        steps_per_update=recipe.n_steps,
        n_envs=recipe.n_envs,
        budget=recipe.budget.count,
        budget_clock=recipe.budget.clock,
        stop_return=math.inf if train_return is None else train_return,
        hp_names=list(schedules),
        hyperparameters=hyperparameters,
        progress=lambda clock: min(1.0, clock.at(horizon.clock) / horizon.count),
    )


def updates_per_row(settings: MetricsSettings, updates: int) -> int:
    """How many updates one row of the metric store stands for, in a run of `updates`."""
    return -(-updates // MOST_ROWS) if settings.rows_every == "auto" else settings.rows_every


def histogram_rule(parts: Parts, start: Clock) -> UpdateRule:
    """Histograms are taken of the first and the last update, at evaluations, and at a cadence in whole rows.

    `start` is where this session begins. Recipe and budget alone decide, never the time, so that a run is reproducible.
    """
    settings = parts.recipe.metrics
    plan = parts.plan
    last = plan.last_update(start)
    row = updates_per_row(settings, last)
    every = -(-settings.distributions_every // row) * row
    evaluation = parts.period(parts.recipe.eval.every, parts.recipe.eval.warmup)

    def measured(update: int) -> bool:
        return update in (1, last) or update % every == 0 or evaluation.fires(plan.after(start, update - start.updates))

    return measured


def rollout_bytes(recipe: Recipe, spaces: Spaces) -> int:
    """About how much memory one rollout takes."""
    lead = (recipe.n_steps, recipe.n_envs)
    obs, action = jax.eval_shape(lambda: (zero_obs(spaces, lead), zero_action(spaces.action, lead)))

    def size(tree: Tree) -> int:
        return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))

    return 2 * size(obs) + size(action) + 20 * math.prod(lead)  # obs and successor, action, scalars


def check_memory(recipe: Recipe, spaces: Spaces) -> None:
    """UserError if a rollout does not fit into memory."""
    needed = rollout_bytes(recipe, spaces)
    free = _free_memory()
    if free is not None and needed > free:
        fits = max(1, int(recipe.n_steps * free / needed / 2))
        raise UserError(
            f"a rollout of {recipe.n_envs} envs x {recipe.n_steps} steps takes {needed / 2**30:.1f} GiB and "
            f"{free / 2**30:.1f} GiB are free: try n_steps={fits} or fewer envs"
        )


def _free_memory() -> int | None:
    """Bytes available without swapping; None where /proc/meminfo does not tell."""
    try:
        facts = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        return int(facts["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
