"""Everything needed to play one episode with a policy: the real env as evaluation makes it, and the forward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces as gym_spaces

from gymlab.core.types import Array, Masked, Rollout, Spaces, Tree, VecStep
from gymlab.envs.engines.gymnasium import GymnasiumEngine
from gymlab.envs.make import Env, import_all, make_env, split_wrappers
from gymlab.envs.settings import EnvSettings
from gymlab.envs.transform import transformed
from gymlab.envs.wrapper_stacks import evaluation_settings
from gymlab.media.episode_trace import Actor, Episode, Moment, Wanted, play
from gymlab.media.trace_returns import Judgement
from gymlab.networks.distributions import Bernoulli, Categorical, Distribution, Gaussian, MultiCategorical
from gymlab.networks.normalizer import Normalising
from gymlab.recipes.project_settings import cache_folder
from gymlab.recipes.schema import Recipe
from gymlab.recipes.secrets import require_secrets
from gymlab.session.build import make_agent
from gymlab.session.jax_setup import set_up_jax
from gymlab.training.agent import Agent
from gymlab.training.named_tensors import Tensors, from_tensors
from gymlab.training.state import Policy

MakeEnv = Callable[[EnvSettings], Env]


@dataclass(frozen=True)
class Stage:
    """A recipe's env and forward pass, ready for any policy of that recipe."""

    recipe: Recipe
    env: Env
    spaces: Spaces  # as the policy sees them
    agent: Agent
    actor: Actor
    judged: Judgement
    labels: tuple[str, ...]

    def policy(self, tensors: Tensors) -> Policy:
        """A saved policy."""
        return from_tensors(_blank_policy(self.agent), tensors)

    def engine(self, seed: int) -> GymnasiumEngine:
        """The env as the first one of an evaluation with this seed."""
        return _engine(self.recipe, self.env, seed)

    def play(
        self, policy: Policy, wanted: Wanted, on_moment: Callable[[Moment], None] = lambda _: None, *, episode: int = 0
    ) -> Episode:
        """One episode of an evaluation with this seed; labels are the stage's."""
        engine = _Begins(self.engine(wanted.seed), episode)
        return play(engine, self.actor, policy, self.judged, wanted._replace(labels=self.labels), on_moment)

    def close(self) -> None:
        self.env.close()


class _Begins:
    """An engine that begins with a certain episode."""

    def __init__(self, engine: GymnasiumEngine, episode: int) -> None:
        self.spaces = engine.spaces
        self.step = engine.step
        self._engine = engine
        self._episode = episode

    def reset(self) -> VecStep:
        return self._engine.reset(self._episode)


def open_stage(recipe: Recipe, make: MakeEnv = make_env) -> Stage:
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
    return Stage(recipe, env, spaces, agent, actor, judgement(recipe, agent), labels)


def _engine(recipe: Recipe, env: Env, seed: int) -> GymnasiumEngine:
    return GymnasiumEngine(evaluation_settings(recipe.env), 1, seed, evaluation=True, factory=lambda _: env)


def action_labels(space: Any, named: Sequence[str] | None, env: Env) -> tuple[str, ...]:
    """Names of the discrete actions: the recipe's, the game's own, or numbers. Of others: the recipe's, if any."""
    if not isinstance(space, gym_spaces.Discrete):
        return tuple(named or ())
    meanings: Any = getattr(env.unwrapped, "get_action_meanings", lambda: ())
    given = tuple(named or ()) or tuple(str(name).lower() for name in meanings())
    return given if len(given) == space.n else tuple(str(int(space.start) + i) for i in range(int(space.n)))


def judgement(recipe: Recipe, agent: Agent) -> Judgement:
    """How the recipe's algorithm judges returns, at the end of its schedules."""
    settings = recipe.algorithm.settings
    normalising = agent.normalising
    values = {name: schedule.at(1.0) for name, schedule in settings.schedules().items()}
    # Rewards as learning sees them; there are no observations to normalise along with them.
    rewards = Normalising(normalising.space, obs=False, reward=normalising.reward, clip=normalising.clip)
    nothing = Rollout(**dict.fromkeys(Rollout._fields, ()))  # type: ignore[arg-type]

    def learnt(policy: Policy, reward: Array) -> Array:
        return rewards.seen(policy.normaliser, nothing._replace(train_reward=reward)).train_reward

    baseline = getattr(settings, "baseline", "value")
    return Judgement(values["gamma"], values.get("gae_lambda", 1.0), str(baseline), learnt)


def _outlook(agent: Agent) -> Callable[[Tree, Tree], dict[str, Tree]]:
    """What the policy thinks of states: their value, how it chooses, and what of them its network gets to see."""
    network = getattr(agent.algorithm, "network", None)

    def look(policy: Policy, obs: Tree) -> dict[str, Tree]:
        if network is None:  # an algorithm of a user's own
            return {}
        seen = agent.normalising.observe(policy.normaliser, obs)
        chosen, value = network(policy.weights).both(seen)
        told = {"value": value, "entropy": chosen.entropy(), **told_of(chosen)}
        return told | {"seen": seen.obs if isinstance(seen, Masked) else seen} if agent.normalising.obs else told

    return look


def told_of(chosen: Distribution) -> dict[str, Tree]:
    """A distribution in numbers: of one choice its probabilities, of several each one's, of numbers mean and std."""
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
    """A policy of the right shape, without computing one."""

    def make(key: Array) -> Policy:
        return Policy(agent.algorithm.weights(agent.algorithm.init(key, (1,))), agent.normalising.init())

    shapes = jax.eval_shape(make, jax.random.key(0))
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
