"""What shaping and randomising do to what is learnt, over fresh seeds. Slow: `make test-slow`."""

import json

import jax
import numpy as np
import pytest

from gymlab.envs.engines.gymnasium import GymnasiumEngine
from gymlab.runs.paths import RunPaths
from gymlab.session.build import load_run
from tests.running import gymlab, last_json

pytestmark = pytest.mark.slow


def trained(recipe, seed, folder, *arguments, which="last"):
    """The run's folder and the greedy mean of a checkpoint over 100 fresh episodes."""
    result = last_json(gymlab("train", recipe, "--seed", seed, "--json", *arguments, cwd=folder))
    told = json.loads(gymlab("eval", f"{result['run_id']}/{which}", "--json", cwd=folder).stdout)["eval"]
    return folder / "runs" / result["run_id"], told["greedy"]["mean"]


def distance_from_the_middle(run, n=100):
    """Mean |x| of the greedy policy over the first episode of n evaluation envs."""
    parts, policy, _ = load_run(RunPaths(run), "last")
    act = jax.jit(lambda obs: parts.agent.act(policy, obs, (), jax.random.key(0), True).action)
    places, playing = [], np.ones(n, bool)
    with GymnasiumEngine(parts.recipe.env, n, 7, evaluation=True) as engine:
        step = engine.reset()
        while playing.any():
            step = engine.step(np.asarray(act(step.obs)), playing)
            places.append(np.abs(step.successor[playing, 0]))
            playing &= ~step.fresh
    parts.program.close()
    return float(np.concatenate(places).mean())


def test_centring_keeps_the_cart_in_the_middle_and_the_return_at_500(folder):
    far = {}
    for variant in ("ppo", "centred"):
        runs = [trained(f"CartPole-v1:{variant}", seed, folder, "--full-budget") for seed in range(5)]
        assert [score for _, score in runs] == [500.0] * 5
        far[variant] = np.mean([distance_from_the_middle(run) for run, _ in runs])
    assert far["centred"] <= 0.6 * far["ppo"], far


@pytest.mark.parametrize("variant", ["shaped", "counts"])
def test_mountain_car_is_solved_with_shaping_and_with_counts(variant, folder):
    reached = [trained(f"MountainCar-v0:{variant}", seed, folder, "--full-budget")[1] for seed in range(3)]
    assert min(reached) >= -110, reached


def test_the_lander_lands_under_gravity_and_wind_drawn_anew(folder):
    reached = [trained("LunarLander-v3:randomized", seed, folder, which="best")[1] for seed in range(3)]
    assert min(reached) >= 200, reached
