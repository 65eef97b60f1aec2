"""What features get to see: nothing that one of them could change for another, or for training."""

import dataclasses
from types import MappingProxyType

import jax
import numpy as np
import pytest

from gymlab.recipes.resolve import resolve
from gymlab.session.session import Options
from gymlab.session.start import train
from gymlab.training.events import Checkpointed, Evaluated, Feature, Measured, Recorded, Updated

TINY = ["n_envs=4", "n_steps=8", "batch_size=32", "policy.hidden=[8]", "eval.episodes=2", "eval.final_episodes=2"]
TINY += ["eval.every=50%", "budget=128 env_steps", "metrics.statistics=full", "stop.eval_return=1000"]


def mutable_parts(thing, path):
    """The places in it that can be changed, by their path."""
    if thing is None or isinstance(thing, str | bytes | int | float | bool | jax.Array | type) or callable(thing):
        return []
    if isinstance(thing, np.ndarray):
        return [path] if thing.flags.writeable else []
    if isinstance(thing, MappingProxyType):
        return [found for key, value in thing.items() for found in mutable_parts(value, f"{path}[{key!r}]")]
    if isinstance(thing, tuple):
        return [found for i, value in enumerate(thing) for found in mutable_parts(value, f"{path}[{i}]")]
    if dataclasses.is_dataclass(thing) and type(thing).__dataclass_params__.frozen:
        fields = {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}
        return [found for name, value in fields.items() for found in mutable_parts(value, f"{path}.{name}")]
    return [] if type(thing).__module__ == "pathlib" else [f"{path}: {type(thing).__name__}"]


def containers(tree):
    """The identities of the dicts and lists in it."""
    if isinstance(tree, dict | list):
        values = tree.values() if isinstance(tree, dict) else tree
        return {id(tree)}.union(*map(containers, values))
    return set().union(*map(containers, tree)) if isinstance(tree, tuple) else set()


class Inspector(Feature):
    """Finds what it could change in every event, in the policy and in what it acts with."""

    name = "inspector"

    def __init__(self):
        self.kinds = set()
        self.mutable = set()

    def __call__(self, event, control):
        self.kinds.add(type(event))
        self.mutable.update(mutable_parts(event, type(event).__name__))
        one, other = control.snapshot(), control.snapshot()
        self.mutable.update(mutable_parts(tuple(jax.tree.leaves(one.policy)), "snapshot"))
        assert containers(one.policy).isdisjoint(containers(other.policy)), "two features would share them"
        with pytest.raises((AttributeError, TypeError)):  # FrozenInstanceError, or there is no place for it
            control.injected = 1


@pytest.mark.parametrize("engine", ["jax", "gymnasium"])
def test_nothing_that_a_feature_gets_can_be_changed(engine, tmp_path):
    inspector = Inspector()
    recipe = resolve("CartPole-v1:ppo", [*TINY, f"engine={engine}"]).recipe
    train(recipe, Options(), tmp_path, watchers=[inspector])
    assert inspector.kinds >= {Updated, Recorded, Measured, Evaluated, Checkpointed}
    assert inspector.mutable == set()
