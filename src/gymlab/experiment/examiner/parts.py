"""What evaluation needs of a run, without its training envs."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gymlab.core.keys import run_key
from gymlab.core.types import Spaces
from gymlab.envs.engines.gymnasium import GymnasiumEngine
from gymlab.envs.engines.jax import JaxEngine
from gymlab.envs.make import import_all, split_wrappers
from gymlab.envs.stacks import evaluation_settings
from gymlab.envs.wrappers.transform import transformed
from gymlab.experiment.build import make_agent, score
from gymlab.experiment.engines import compiled_env, evaluation_engines
from gymlab.experiment.examiner.protocol import Evaluate
from gymlab.experiment.jax_setup import set_up_jax
from gymlab.recipes.schema import Recipe
from gymlab.recipes.settings_file import cache_folder
from gymlab.rollout.evaluate import Abandon, Evaluation, Evaluator
from gymlab.training.agent import Agent
from gymlab.training.state import Policy


def evaluation_of(recipe: Recipe) -> tuple[Policy, Evaluate]:
    """A policy of this recipe's shape, and the way such policies are scored."""
    set_up_jax(cache_folder())
    import_all(recipe.imports)
    _, transforms = split_wrappers(recipe.env)
    _, shown = split_wrappers(evaluation_settings(recipe.env))
    agent = make_agent(recipe, transformed(_spaces(recipe), transforms))
    evaluator = Evaluator(evaluation_engines(recipe, None), shown, agent.act, agent.algorithm.initial_carry)

    def evaluate(policy: Policy, kind: str, seed: int, abandon: Abandon = lambda: False) -> Evaluation:
        return score(evaluator, recipe.eval, policy, kind, seed, abandon)

    return blank_policy(agent, recipe.n_envs), evaluate


def blank_policy(agent: Agent, n_envs: int) -> Policy:
    """Zeros in the shape of a policy; nothing is computed."""

    def begin() -> Policy:
        weights = agent.algorithm.weights(agent.algorithm.init(run_key(0), (n_envs,)))
        return Policy(weights, agent.normalising.init())

    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(begin))


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
