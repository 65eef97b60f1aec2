"""Whether envs with different seeds behave the same."""

import pytest

from gymlab.envs.seed_check import copies
from gymlab.envs.settings import EnvSettings


@pytest.mark.parametrize(
    ("env", "alike"), [("CartPole-v1", False), ("FrozenLake-v1", False), ("CliffWalking-v1", True)]
)
def test_envs_that_ignore_their_seed_are_copies(env, alike):
    assert copies(EnvSettings(id=env)) is alike
