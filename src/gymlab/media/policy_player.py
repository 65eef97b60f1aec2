"""Policy player: plays episodes in a recipe's evaluation env with any policy of that recipe, and traces them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces as gym_spaces

from gymlab.algorithms.base import ActorCriticAlgorithm
from gymlab.core.arrays import reset_carry
from gymlab.core.jax_keys import run_key, stream_key
from gymlab.core.types import Array, Decision, Json, Masked, Rollout, Space, Spaces, Tree, VecStep
from gymlab.envs.engines.gymnasium import GymnasiumEngine
from gymlab.envs.gymnasium_types import Env
from gymlab.envs.make import import_all, make_env, split_wrappers
from gymlab.envs.settings import EnvSettings
from gymlab.envs.transform import Transform, transformed
from gymlab.envs.wrapper_stacks import evaluation_settings
from gymlab.experience import advantages
from gymlab.media.episode_trace import (
    DecisionStats,
    EpisodeTrace,
    TraceDecision,
    TraceRow,
    action_label,
    shortest_numbers,
    to_json,
)
from gymlab.networks.distributions import (
    Bernoulli,
    Categorical,
    Distribution,
    Gaussian,
    MultiCategorical,
    to_env_action,
)
from gymlab.networks.normalizer import Normalizer
from gymlab.recipes.project_settings import cache_folder
from gymlab.recipes.schema import Recipe
from gymlab.recipes.secrets import require_secrets
from gymlab.session.build import make_agent
from gymlab.session.jax_setup import set_up_jax
from gymlab.training.agent import Agent
from gymlab.training.named_tensors import Tensors, from_tensors
from gymlab.training.state import Act, Policy, apply_transforms, transform_action

MakeEnv = Callable[[EnvSettings], Env]

# (policy, obs, carry) -> "value" (N,), "entropy" (N,), "probabilities" (N, n) and so on, those that are known
OutlookFn = Callable[[Tree, Tree, Tree], dict[str, Tree]]

_BATCH = 2  # a batch of one is computed with other roundings than any larger one


class EpisodeOptions(NamedTuple):
    """Which episode to play, and how."""

    seed: int
    greedy: bool = True
    max_steps: int = 10**9
    labels: Sequence[str] = ()  # of discrete actions
    stride: int = 1  # a film of it has one frame per so many steps
    forced: Mapping[int, Json] = {}  # actions by step, in the policy's format, that replace its own


class ReturnSettings(NamedTuple):
    """How an algorithm computes returns and advantages."""

    gamma: float
    lam: float
    baseline: str = "value"  # "none": nothing is subtracted; anything else: not known from the policy alone
    training_rewards: Callable[[Tree, Array], Array] = lambda _, reward: reward  # (policy, rewards) -> as learning sees


class StepOutcome(NamedTuple):
    """The result of a step."""

    reward: float
    train_reward: float
    terminated: bool  # also where a lost life ends the training episode, but not the env's
    truncated: bool
    components: dict[str, float]

    @classmethod
    def from_step(cls, step: VecStep) -> StepOutcome:
        parts = {name: float(part[0]) for name, part in step.components.items()}
        ends = bool(step.terminated[0]), bool(step.truncated[0])
        return cls(float(step.reward[0]), float(step.train_reward[0]), *ends, parts)


@dataclass(frozen=True)
class PolicyPlayer:
    """A recipe's env and forward pass, ready for any policy of that recipe."""

    recipe: Recipe
    env: Env
    spaces: Spaces  # as the policy sees them
    agent: Agent
    actor: Actor
    return_settings: ReturnSettings
    labels: tuple[str, ...]

    def policy(self, tensors: Tensors) -> Policy:
        """A saved policy."""
        return from_tensors(_blank_policy(self.agent), tensors)

    def engine(self, seed: int) -> GymnasiumEngine:
        """The env as the first one of an evaluation with this seed."""
        return _engine(self.recipe, self.env, seed)

    def play(
        self,
        policy: Policy,
        options: EpisodeOptions,
        on_decision: Callable[[TraceDecision], None] = lambda _: None,
        *,
        episode: int = 0,
    ) -> EpisodeTrace:
        """One episode of an evaluation with this seed, with this player's labels."""
        engine = _StartAt(self.engine(options.seed), episode)
        return _play(
            engine, self.actor, policy, self.return_settings, options._replace(labels=self.labels), on_decision
        )

    def close(self) -> None:
        self.env.close()


class _StartAt:
    """An engine whose first reset starts the episode of a given number."""

    def __init__(self, engine: GymnasiumEngine, episode: int) -> None:
        self.spaces = engine.spaces
        self.step = engine.step
        self._engine = engine
        self._episode = episode

    def reset(self) -> VecStep:
        return self._engine.reset(self._episode)


def open_player(recipe: Recipe, make: MakeEnv = make_env) -> PolicyPlayer:
    """The env of a recipe as evaluation sees it; `make` may put a camera on it."""
    require_secrets(recipe)
    set_up_jax(cache_folder())
    import_all(recipe.imports)
    env = make(evaluation_settings(recipe.env))
    _, transforms = split_wrappers(evaluation_settings(recipe.env))
    spaces = transformed(_engine(recipe, env, 0).spaces, transforms)
    agent = make_agent(recipe, spaces)
    actor = Actor(agent.act, _outlook(agent), agent.algorithm.initial_carry, transforms)
    labels = action_labels(spaces.action, recipe.env.actions, env)
    return PolicyPlayer(recipe, env, spaces, agent, actor, return_settings(recipe, agent), labels)


def _engine(recipe: Recipe, env: Env, seed: int) -> GymnasiumEngine:
    return GymnasiumEngine(evaluation_settings(recipe.env), 1, seed, evaluation=True, factory=lambda _: env)


def action_labels(space: Space, named: Sequence[str] | None, env: Env) -> tuple[str, ...]:
    """Names of the discrete actions: the recipe's, the game's own, or numbers. Of others: the recipe's, if any."""
    if not isinstance(space, gym_spaces.Discrete):
        return tuple(named or ())
    meanings: Callable[[], Sequence[object]] = getattr(env.unwrapped, "get_action_meanings", lambda: ())
    names = tuple(named or ()) or tuple(str(name).lower() for name in meanings())
    return names if len(names) == space.n else tuple(str(int(space.start) + i) for i in range(int(space.n)))


def return_settings(recipe: Recipe, agent: Agent) -> ReturnSettings:
    """How the recipe's algorithm computes returns, at the end of its schedules."""
    settings = recipe.algorithm.settings
    normalising = agent.normalising
    values = {name: schedule.at(1.0) for name, schedule in settings.schedules().items()}
    # Rewards as learning sees them; observations are left out.
    rewards = Normalizer(normalising.space, obs=False, reward=normalising.reward, clip=normalising.clip)
    nothing = Rollout(**dict.fromkeys(Rollout._fields, ()))  # type: ignore[arg-type]

    def training_rewards(policy: Policy, reward: Array) -> Array:
        statistics = agent.statistics_of(policy.normaliser, 0)
        return rewards.normalize_rollout(statistics, nothing._replace(train_reward=reward)).train_reward

    baseline = getattr(settings, "baseline", "value")
    return ReturnSettings(values["gamma"], values.get("gae_lambda", 1.0), str(baseline), training_rewards)


def _outlook(agent: Agent) -> OutlookFn:
    """A function that gives a state's value, its action distribution and the network's input."""
    algorithm = agent.algorithm

    def outlook(policy: Policy, obs: Tree, carry: Tree) -> dict[str, Tree]:
        if not isinstance(algorithm, ActorCriticAlgorithm):  # one of a user's own, that cannot be looked into
            return {}
        network_input = agent.observe(policy, obs)
        trace = algorithm.look(policy.weights, network_input, carry)
        chosen = trace.distribution
        known = {"value": trace.values, "entropy": chosen.entropy(), **distribution_numbers(chosen)}
        if not agent.normalising.obs:
            return known
        return known | {"network_input": network_input.obs if isinstance(network_input, Masked) else network_input}

    return outlook


def distribution_numbers(chosen: Distribution) -> dict[str, Tree]:
    """A distribution's parameters: probabilities of one choice or of several, mean and std of numbers."""
    if isinstance(chosen, Categorical):
        return {"probabilities": jnp.exp(chosen.log_p)}
    if isinstance(chosen, MultiCategorical):
        return {"choices": [jnp.exp(part.log_p) for part in chosen.parts]}
    if isinstance(chosen, Bernoulli):
        on = jax.nn.sigmoid(chosen.logits)
        return {"choices": [jnp.stack([1 - on[..., i], on[..., i]], -1) for i in range(on.shape[-1])]}
    if isinstance(chosen, Gaussian):
        return {"mean": chosen.mean, "std": jnp.broadcast_to(jnp.exp(chosen.log_std), chosen.mean.shape)}
    return {}


def _blank_policy(agent: Agent) -> Policy:
    """Zeros in the shape of a policy (`eval_shape`: nothing is initialised)."""

    def make(key: Array) -> Policy:
        return Policy(agent.algorithm.weights(agent.algorithm.init(key, (1,))), agent.initial_normaliser())

    shapes = jax.eval_shape(make, jax.random.key(0))
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)


class Actor:
    """A policy's forward pass, compiled once: the decision in a state, and the outlook (see `OutlookFn`)."""

    def __init__(
        self, act: Act, outlook: OutlookFn, initial_carry: Callable[[int], Tree], transforms: tuple[Transform, ...] = ()
    ) -> None:
        self.transforms = transforms
        self.first_carry = initial_carry(_BATCH)

        @jax.jit
        def choose(
            policy: Tree, obs: Tree, carry: Tree, fresh: Array, key: Array, t: Array, greedy: Array
        ) -> tuple[Decision, dict[str, Tree]]:
            carry = reset_carry(carry, fresh, initial_carry(_BATCH))
            return act(policy, obs, carry, jax.random.fold_in(key, t), greedy), outlook(policy, obs, carry)

        self._choose = choose

    def choose(
        self, policy: Tree, obs: Tree, carry: Tree, fresh: Array, key: Array, t: int, *, greedy: bool
    ) -> tuple[Decision, dict[str, Tree]]:
        """The decision for one env (every array has a leading axis of 1), and the outlook."""
        both = jax.tree.map(lambda x: np.repeat(np.asarray(x), _BATCH, 0), (obs, fresh))
        decision, known = self._choose(policy, both[0], carry, both[1], key, np.uint32(t), np.full(_BATCH, greedy))
        chosen = np.asarray(decision.action)
        log_prob = np.asarray(decision.log_prob)
        return decision._replace(action=chosen, log_prob=log_prob), jax.tree.map(np.asarray, known)


def _play(
    engine: GymnasiumEngine | _StartAt,
    actor: Actor,
    policy: Tree,
    settings: ReturnSettings,
    options: EpisodeOptions,
    on_decision: Callable[[TraceDecision], None] = lambda _: None,
) -> EpisodeTrace:
    """Play the next episode of a host engine with one env."""
    key = stream_key(run_key(options.seed), "evaluation")
    space = transformed(engine.spaces, actor.transforms).action
    states = tuple(transform.init(1) for transform in actor.transforms)
    raw = engine.reset()
    states, step = apply_transforms(actor.transforms, states, raw, key)
    carry = actor.first_carry
    total = 0.0
    ended = ""
    decisions: list[TraceDecision] = []
    outcomes: list[StepOutcome] = []
    while not ended:
        t = len(decisions)
        decision, outlook = actor.choose(policy, step.obs, carry, step.fresh, key, t, greedy=options.greedy)
        if t in options.forced:
            decision = _forced(decision, options.forced[t], outlook)
        own = stream_key(key, "transforms", t + 1) if any(part.random for part in actor.transforms) else None
        chosen = to_env_action(space, decision.action[:1])
        stats = _decision_stats(decision, outlook, step.obs, raw.obs if actor.transforms else None)
        decisions.append(
            _trace_decision(t, step.obs, chosen, decision, outlook, options.labels, total)._replace(stats=stats)
        )
        on_decision(decisions[-1])
        states, sent = transform_action(actor.transforms, states, chosen, own)
        raw = engine.step(sent)
        states, step = apply_transforms(actor.transforms, states, raw, own)
        carry = decision.carry
        total = total + float(step.reward[0])
        outcomes.append(StepOutcome.from_step(step))
        if step.fresh[0]:
            ended = "terminated" if step.terminated[0] else "truncated"
        elif len(decisions) >= options.max_steps:
            ended = "cut"
    _, after = actor.choose(
        policy, step.successor, carry, np.zeros(1, bool), key, len(decisions), greedy=options.greedy
    )
    return EpisodeTrace(
        _rows(decisions, outcomes, _value(after), policy, settings, options.stride), ended, options.seed
    )


def _forced(decision: Decision, action: Json, outlook: dict[str, Tree]) -> Decision:
    """The decision with another action; its probability is known only for discrete actions."""
    forced = np.broadcast_to(np.asarray(action, decision.action.dtype), decision.action.shape)
    log_prob = np.full_like(decision.log_prob, math.nan)
    if "probabilities" in outlook:
        with np.errstate(divide="ignore"):
            log_prob[:] = np.log(outlook["probabilities"][0][int(forced[0])])
    return decision._replace(action=forced, log_prob=log_prob)


def _first(tree: Tree) -> Tree:
    """A copy of the first env's part, without its action mask."""
    return jax.tree.map(lambda x: np.array(x[0]), tree.obs if isinstance(tree, Masked) else tree)


def _same(one: Tree, two: Tree) -> bool:
    """Whether two observations are equal."""
    if str(jax.tree.structure(one)) != str(jax.tree.structure(two)):
        return False
    return all(map(np.array_equal, jax.tree.leaves(one), jax.tree.leaves(two)))


def _decision_stats(decision: Decision, outlook: dict[str, Tree], obs: Tree, raw: Tree | None) -> DecisionStats:
    distribution: dict[str, Json] = {
        name: to_json(_first(outlook[name])) for name in ("mean", "std", "choices") if name in outlook
    }
    return DecisionStats(
        distribution,
        float(decision.log_prob[0]),
        float(outlook["entropy"][0]) if "entropy" in outlook else math.nan,
        None if raw is None or _same(raw, obs) else _first(raw),
        _first(outlook["network_input"]) if "network_input" in outlook else None,
        np.array(obs.mask[0]) if isinstance(obs, Masked) else None,
    )


def _trace_decision(
    t: int, obs: Tree, chosen: Array, decision: Decision, outlook: dict[str, Tree], labels: Sequence[str], total: float
) -> TraceDecision:
    action = np.asarray(chosen[0])  # in the env's numbers; a choice counts from 0
    choice = decision.action[0]
    probabilities = outlook.get("probabilities")
    return TraceDecision(
        step=t,
        observation=_first(obs),
        action=action,
        label=action_label(choice if choice.ndim == 0 else action, labels),
        probability=float(np.exp(np.float64(decision.log_prob[0]))),
        probabilities=() if probabilities is None else tuple(shortest_numbers(probabilities[0])),
        value=_value(outlook),
        return_so_far=total,
    )


def _value(outlook: dict[str, Array]) -> float:
    return float(outlook["value"][0]) if "value" in outlook else math.nan


def _rows(
    decisions: list[TraceDecision],
    outcomes: list[StepOutcome],
    end_value: float,
    policy: Tree,
    settings: ReturnSettings,
    stride: int,
) -> list[TraceRow]:
    values = np.array([decision.value for decision in decisions], np.float32)
    learnt = np.asarray(settings.training_rewards(policy, np.array([o.train_reward for o in outcomes], np.float32)))
    to_go, gae, td = episode_returns(learnt, values, end_value, np.array([o.terminated for o in outcomes]), settings)
    baseline = {"value": values, "none": np.zeros_like(values)}.get(settings.baseline, np.full_like(values, math.nan))
    so_far = np.cumsum([outcome.reward for outcome in outcomes])
    return [
        TraceRow(
            decision.step,
            decision.step // stride,
            decision.observation,
            decision.action,
            decision.label,
            decision.probability,
            outcomes[t].reward,
            float(so_far[t]),
            float(to_go[t]),
            decision.value,
            float(baseline[t]),
            float(to_go[t] - baseline[t]),
            float(gae[t]),
            decision.probabilities,
            *decision.stats,
            float(learnt[t]),
            outcomes[t].components,
            outcomes[t].terminated,
            outcomes[t].truncated,
            float(td[t]),
        )
        for t, decision in enumerate(decisions)
    ]


def episode_returns(
    rewards: np.ndarray, values: np.ndarray, end_value: float, terminated: np.ndarray, settings: ReturnSettings
) -> tuple[np.ndarray, ...]:
    """Discounted returns, GAE and TD errors of one whole episode, by the code that training uses."""
    n = len(rewards)
    padded = 1 << max(6, (n - 1).bit_length())  # powers of two: few compilations

    def column(x: np.ndarray) -> np.ndarray:
        return np.pad(x, (0, padded - n))[:, None]

    next_values = np.append(values[1:], np.float32(end_value))
    truncated = (np.arange(n) == n - 1) & ~terminated
    end_values = np.nan_to_num(next_values)  # without a value function a cut episode ends with 0
    columns = map(column, (rewards, end_values, values, next_values, terminated, truncated))
    return tuple(np.asarray(x)[:n, 0] for x in _compiled(*columns, settings.gamma, settings.lam))


@jax.jit
def _compiled(
    rewards: Array,
    end_values: Array,
    values: Array,
    next_values: Array,
    terminated: Array,
    truncated: Array,
    *rates: Array,
) -> tuple[Array, Array, Array]:
    gamma, lam = rates
    to_go = advantages.monte_carlo(rewards, end_values, terminated, truncated, gamma=gamma)
    gae, td = (
        advantages.gae(rewards, values, next_values, terminated, truncated, gamma=gamma, lam=by) for by in (lam, 0.0)
    )
    return to_go, gae, td
