"""Scoring a finished or running run's policy."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gymlab.core.types import Masked
from gymlab.envs.catalogue import resolve_id
from gymlab.envs.ports.catalogue import find_port
from gymlab.envs.ports.tabular import Tabular
from gymlab.experiment.build import Parts, build
from gymlab.recipes.load import read_run_recipe
from gymlab.rollout.evaluate import Evaluation
from gymlab.rollout.exact import exact_return
from gymlab.runs.checkpoints import load_checkpoint
from gymlab.runs.manifest import read_manifest
from gymlab.runs.paths import RunPaths
from gymlab.training.state import Policy
from gymlab.training.tensors import from_tensors


def load_run(paths: RunPaths, which: str) -> tuple[Parts, Policy, str]:
    """A run's parts, the policy of one of its checkpoints, and that checkpoint's name."""
    recipe = read_run_recipe(paths.recipe)
    loaded = load_checkpoint(paths, which)
    parts = build(recipe, read_manifest(paths)["seed"])
    template = parts.agent.policy(parts.program.start(parts.seed))
    return parts, from_tensors(template, loaded.policy), loaded.path.name


class Scored(NamedTuple):
    """What a checkpoint is worth."""

    checkpoint: str
    evaluation: Evaluation
    exact: float | None  # the greedy policy's true expected return, for envs that are a transition table


def score_run(paths: RunPaths, which: str, *, episodes: int, seed: int) -> Scored:
    """Evaluate a checkpoint on fresh episodes derived from `seed`."""
    parts, policy, checkpoint = load_run(paths, which)
    try:
        max_envs = parts.recipe.eval.max_envs
        evaluation = parts.evaluator.evaluate(policy, episodes=episodes, seed=seed, max_envs=max_envs)
        return Scored(checkpoint, evaluation, exact_score(parts, policy))
    finally:
        parts.program.close()


def exact_score(parts: Parts, policy: Policy) -> float | None:
    """The greedy policy's expected return from the env's own table; None where there is no table or it is wrapped."""
    env = parts.recipe.env
    resolved = resolve_id(env.id)
    port = find_port(resolved.id, {**resolved.kwargs, **env.kwargs}, env.max_episode_steps)
    if not isinstance(port, Tabular) or env.wrappers:
        return None
    states = jnp.arange(int(port.observation_space.n), dtype=jnp.int32)
    obs = Masked(states, port.action_mask(states)) if parts.spaces.masked else states
    carry = parts.agent.algorithm.initial_carry(len(states))
    decision = jax.jit(parts.agent.act)(policy, obs, carry, jax.random.key(0), jnp.ones(len(states), bool))
    return exact_return(port, np.asarray(decision.action))
