"""What evaluation needs of a run, without its training envs."""

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
from gymlab.envs.transform import transformed
from gymlab.recipes.project_settings import cache_folder
from gymlab.recipes.schema import Recipe
from gymlab.recipes.secrets import require_secrets
from gymlab.session.build import make_agent, make_evaluator, score
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

    def blank(self) -> Policy:
        return blank_policy(self.agent, self.recipe.n_envs)

    def evaluate(self, policy: Policy, kind: str, seed: int, abandon: Abandon = lambda: False) -> Evaluation:
        """One evaluation of a kind, the way the recipe says."""
        return score(self.evaluator, self.recipe.eval, policy, kind, seed, abandon)


def open_scorer(recipe: Recipe) -> Scorer:
    """What scores policies of this recipe exactly as its run does."""
    require_secrets(recipe)
    set_up_jax(cache_folder())
    import_all(recipe.imports)
    _, transforms = split_wrappers(recipe.env)
    given = _spaces(recipe)
    spaces = transformed(given, transforms)
    agent = make_agent(recipe, spaces)
    return Scorer(recipe, spaces, agent, make_evaluator(recipe, agent, given))


@lru_cache(maxsize=8)  # runs of one shape share their agent
def blank_policy(agent: Agent, n_envs: int) -> Policy:
    """Zeros in the shape of a policy; nothing is computed."""

    def begin() -> Policy:
        weights = agent.algorithm.weights(agent.algorithm.init(run_key(0), (n_envs,)))
        return Policy(weights, agent.normalising.init())

    return jax.device_put(jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), jax.eval_shape(begin)))


def _spaces(recipe: Recipe) -> Spaces:
    """As the training engine has them."""
    port, _ = compiled_env(recipe, None)
    if port is not None:
        return JaxEngine(port, 1, use_action_mask=recipe.env.action_mask).spaces
    engine = GymnasiumEngine(recipe.env, 1, 0, imports=recipe.imports)
    try:
        return engine.spaces
    finally:
        engine.close()
