"""The first policy of every shipped recipe acts almost at random: no action is preferred before anything is learnt."""

from __future__ import annotations

import json
import re
from functools import cache

import jax
import numpy as np
import pytest
from gymnasium import spaces

from gymlab.core.types import Masked, Spaces, Tree
from gymlab.envs.engines.gymnasium import GymnasiumEngine
from gymlab.envs.make import split_wrappers
from gymlab.envs.settings import EnvSettings
from gymlab.envs.transform import transformed
from gymlab.networks.actor_critic import ActorCritic
from gymlab.networks.distributions import to_env_action
from gymlab.networks.flat_network import FlatNetwork
from gymlab.networks.normalizer import Normalizer
from gymlab.networks.settings import PolicySettings
from gymlab.recipes.inherit import read_recipe_file
from gymlab.recipes.problems import Problems
from gymlab.recipes.resolve import packaged_files, resolve
from gymlab.session.build import make_encoder
from gymlab.training.collector_host import HostCollector

ENVS = 4
SHIPPED = {
    f"{path.stem}:{variant}": f"{path}:{variant}"
    for path in packaged_files()
    for variant in read_recipe_file(path, Problems()).variants
}
# Seconds each to initialise a CNN of large pictures; two packages come with `make test-slow`.
SLOW = re.compile("rgb|^Vizdoom|^Retro")
PACKAGES = {"Vizdoom": "vizdoom", "Retro": "stable_retro"}


@cache  # variants of an env mostly differ in what learns
def first_obs(settings_json: str) -> tuple[Spaces, Tree]:
    """The spaces a policy sees, and one observation of each env."""
    settings = EnvSettings.model_validate_json(settings_json)
    _, transforms = split_wrappers(settings)
    with GymnasiumEngine(settings, ENVS, 0) as engine:
        collector = HostCollector(engine, transforms, lambda *_: None, (), 1)
        return transformed(engine.spaces, transforms), collector.begin(jax.random.key(0)).obs


@cache
def first_policy(env: str, policy: str, normalize: str) -> tuple[np.ndarray, np.ndarray]:
    """Entropy and mode of the first policy at these observations, given parts of a recipe as JSON."""
    seen, obs = first_obs(env)
    settings = PolicySettings.model_validate_json(policy)
    normaliser = Normalizer(seen.observation, **json.loads(normalize))
    flat = FlatNetwork(lambda key: ActorCritic(key, seen, settings, make_encoder(settings, seen.observation)))

    @jax.jit
    def look(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        found = flat(flat.init(key)).distribution(normaliser.observe(normaliser.init(), obs))
        return found.entropy(), found.mode()

    entropy, mode = look(jax.random.key(0))
    return np.asarray(entropy), np.asarray(mode)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if SLOW.search(name) else []) for name in SHIPPED]
)
def test_the_first_policy_of_every_shipped_recipe_is_near_uniform(name: str) -> None:
    for prefix, package in PACKAGES.items():
        if name.startswith(prefix):
            pytest.importorskip(package)
    recipe = resolve(SHIPPED[name]).recipe
    env = recipe.env.model_dump_json()
    entropy, mode = first_policy(env, recipe.policy.model_dump_json(), recipe.normalize.model_dump_json())
    seen, obs = first_obs(env)
    action = seen.action
    if isinstance(action, spaces.Box):  # its mode is its mean
        middle = (action.low + action.high) / 2
        reach = (action.high - action.low) / 2
        assert np.isfinite(reach).all()
        assert (abs(to_env_action(action, mode) - middle) < 0.1 * reach).all()
    else:
        assert isinstance(action, spaces.Discrete)
        legal = obs.mask.sum(-1) if isinstance(obs, Masked) else np.full(ENVS, action.n)
        assert legal.min() > 1
        assert (entropy >= 0.99 * np.log(legal)).all()
