"""Runs that tests of the command line write to disk without training, and options of short training."""

from gymlab.runs.store import RunStore

TINY = [
    "n_envs=4", "n_steps=16", "batch_size=32", "policy.hidden=[8]", "eval.episodes=2", "eval.final_episodes=2",
    "metrics.statistics=basic", "--full-budget",
]  # fmt: skip


def make_run(root, name, status, clock=None):
    with RunStore.create(root, name, name="CartPole-v1:ppo") as store:
        store.write_manifest({"recipe": "CartPole-v1:ppo", "seed": 0})
        store.start()
        if status != "crashed":
            store.end(status, "a test")
        else:
            store._started = False  # as if it had been killed here
    return store.paths
