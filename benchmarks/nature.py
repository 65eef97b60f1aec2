"""A PPO update on 84 x 84 x 4 bytes with Nature's network, as gymlab makes it. Prints one JSON line.

The whole update counts (values of all states, advantages, shuffling, statistics), but only the samples of gradient
steps are counted as done.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from gymlab.algorithms.ppo import PPOAlgorithm
from gymlab.core.types import Rollout, Spaces
from gymlab.networks.encoders import choose_encoder
from gymlab.networks.settings import PolicySettings
from gymlab.recipes.project_settings import cache_folder
from gymlab.session.jax_setup import set_up_jax

T, N, EPOCHS, REPEATS = 128, 8, 4, 2


def main() -> None:
    set_up_jax(Path(cache_folder()))
    spaces = Spaces(gym.spaces.Box(0, 255, (84, 84, 4), np.uint8), gym.spaces.Discrete(6), False, 1000)
    settings = PPOAlgorithm.Settings(batch_size=256, epochs=EPOCHS, learning_rate=2.5e-4)
    policy = PolicySettings(hidden=(), shared=True, encoder="nature_cnn")
    ppo = PPOAlgorithm(settings, policy, spaces, choose_encoder(spaces.observation, "nature_cnn"))
    state = jax.jit(lambda: ppo.init(jax.random.key(0), (N,)))()
    rng = np.random.default_rng(0)
    obs = rng.integers(0, 256, (T + 1, N, 84, 84, 4), np.uint8)
    reward, ends = rng.normal(size=(T, N)).astype(np.float32), rng.random((T, N)) < 0.01
    action, log_prob = rng.integers(0, 6, (T, N)), np.full((T, N), -1.79, np.float32)
    never = np.zeros_like(ends)
    rollout = Rollout(obs[:-1], action, log_prob, reward, reward, {}, ends, never, ends, obs[1:], obs[-1], (), {})
    hp = {name: jnp.float32(schedule.at(0)) for name, schedule in settings.schedules().items()}
    update = jax.jit(lambda state, rollout, key: ppo.update(state, (rollout,), hp, key))
    jax.block_until_ready(update(state, rollout, jax.random.key(0)))
    began = time.perf_counter()
    for i in range(REPEATS):
        state, _ = jax.block_until_ready(update(state, rollout, jax.random.key(i)))
    print(json.dumps({"samples_per_second": REPEATS * EPOCHS * T * N / (time.perf_counter() - began)}))


if __name__ == "__main__":
    main()
