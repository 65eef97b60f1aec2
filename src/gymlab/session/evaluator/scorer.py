"""Scorer: a recipe's forward pass and evaluation envs, without its training envs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import jax
import numpy as np

from gymlab.core.jax_keys import run_key
from gymlab.core.types import Spaces
from gymlab.envs.engines.gymnasium import GymnasiumEngine
from gymlab.envs.engines.jax import JaxEngine
from gymlab.envs.make import import_all, split_wrappers
from gymlab.envs.ports.port import JaxEnv
from gymlab.envs.transform import transformed
from gymlab.recipes.project_settings import cache_folder
from gymlab.recipes.schema import Recipe
from gymlab.recipes.secrets import require_secrets
from gymlab.session.build import make_agent, make_evaluator, run_evaluation
from gymlab.session.choose_engine import compiled_env
from gymlab.session.jax_setup import set_up_jax
from gymlab.training.agent import Agent
from gymlab.training.evaluation import Abandon, Evaluation, Evaluator
from gymlab.training.state import Policy


@dataclass(frozen=True)
class Scorer:
    """A recipe's forward pass and evaluation envs, ready for any policy of that recipe."""

    recipe: Recipe
    spaces: Spaces  # as the policy sees them
    agent: Agent
    evaluator: Evaluator

    def policy_template(self) -> Policy:
        return policy_template(self.agent, self.recipe.n_envs)

    def evaluate(self, policy: Policy, kind: str, seed: int, abandon: Abandon = lambda: False) -> Evaluation:
        """One evaluation of a kind, with the recipe's episodes and settings."""
        limit = self.spaces.max_episode_steps
        return run_evaluation(self.evaluator, self.recipe, limit, policy, kind, seed, abandon)


def open_scorer(recipe: Recipe) -> Scorer:
    """A scorer that evaluates policies of this recipe exactly as its run does."""
    require_secrets(recipe)
    set_up_jax(cache_folder())
    import_all(recipe.imports)
    _, transforms = split_wrappers(recipe.env)
    port, _ = compiled_env(recipe, None)
    env_spaces = _env_spaces(recipe, port)
    spaces = transformed(env_spaces, transforms)
    agent = make_agent(recipe, spaces)
    return Scorer(recipe, spaces, agent, make_evaluator(recipe, agent, env_spaces, port))


@lru_cache(maxsize=8)  # runs of one shape share their agent
def policy_template(agent: Agent, n_envs: int) -> Policy:
    """A policy of zeros in the right shapes, to load tensors into; nothing is computed."""

    def begin() -> Policy:
        weights = agent.algorithm.weights(agent.algorithm.init(run_key(0), (n_envs,)))
        return Policy(weights, agent.initial_normaliser())

    return jax.device_put(jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), jax.eval_shape(begin)))


def _env_spaces(recipe: Recipe, port: JaxEnv | None) -> Spaces:
    """The spaces of the training engine, before transforms."""
    if port is not None:
        return JaxEngine(port, 1, use_action_mask=recipe.env.action_mask).spaces
    engine = GymnasiumEngine(recipe.env, 1, 0, imports=recipe.imports)
    try:
        return engine.spaces
    finally:
        engine.close()
