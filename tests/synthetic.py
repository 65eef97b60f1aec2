"""Runs that were never trained: real stores whose numbers are known."""

import math
from pathlib import Path

from gymlab.core.clock import Clock
from gymlab.recipes.keys import read_settings
from gymlab.reports.run_facts import read_facts
from gymlab.runs.metrics_writer import MetricsWriter
from gymlab.runs.paths import RunPaths
from gymlab.runs.store import RunStore

RECIPE = """\
env: {{id: CartPole-v1, kwargs: {{}}, actions: [left, right], solved_at: 475}}
variants:
  ppo:
    budget: {budget} env_steps
    n_envs: {n_envs}
    n_steps: 32
    policy: {{hidden: [64, 64], activation: tanh}}
    ppo: {{learning_rate: {learning_rate}, gamma: 0.98, epochs: 20}}
    stop: {{solved_by: greedy}}
"""


def row(update, n_envs, updates):
    """What update number `update` measured: returns that rise in a straight line to 500."""
    share = update / updates
    values = {
        "roll/return_mean": 20 + 480 * share,
        "roll/return_window": min(100.0, 5.0 * update),
        "opt/entropy": 0.69 * math.exp(-2 * share),
        "opt/explained_variance": math.nan if update == 1 else share,
        "hp/learning_rate": 1e-3 * (1 - share),
        "time/progress": share,
        "time/sps_mean": 1000.0 * n_envs,
    }
    if update % (updates // 4) == 0:
        values |= {
            "eval/greedy_mean": 100 + 400 * share, "eval/sampled_mean": 90 + 390 * share, "eval/greedy_std": 10.0,
            "time/evaluate": 0.5, "time/checkpoint": 0.125,
        }  # fmt: skip
    return Clock(update, 32 * update, 32 * n_envs * update, 4 * update, 0.25 * update, 8 * update)._asdict() | values


def make_run(root, run_id, *, updates=40, n_envs=8, learning_rate="lin_1e-3", seed=0, budget=None, status="finished"):
    """A run folder as training leaves it, without checkpoints."""
    store = RunStore.create(Path(root), run_id, name="CartPole-v1:ppo")
    end = Clock(updates, 32 * updates, 32 * n_envs * updates, 4 * updates, 0.25 * updates, 8 * updates)
    with store:
        store.write_manifest(
            {
                "recipe": "CartPole-v1:ppo", "algorithm": "ppo", "env": {"id": "CartPole-v1"}, "seed": seed,
                "engine": {"engine": "jax", "device": "cpu"}, "versions": {"gymlab": "0.1.0"},
                "command": ["/somewhere/gymlab", "train", "CartPole-v1:ppo", "--seed", str(seed)],
            }
        )  # fmt: skip
        store.write_recipe(
            RECIPE.format(budget=budget or 32 * n_envs * updates, n_envs=n_envs, learning_rate=learning_rate)
        )
        store.start()
        with MetricsWriter(store.paths.metrics) as writer:
            writer.append([row(update, n_envs, updates) for update in range(1, updates + 1)])
        score = {"mean": 500.0, "std": 10.0, "n": 100}
        store.note(score=500.0, solved=True, eval={"greedy": score, "sampled": score | {"mean": 480.0}})
        store.end(status, "budget", end)
    return store.paths


def facts_of(paths, **options):
    paths = paths if isinstance(paths, RunPaths) else RunPaths(Path(paths))
    return read_facts(paths, read_settings(paths.recipe), **options)
