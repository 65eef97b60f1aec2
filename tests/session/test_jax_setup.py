"""XLA compiles at LLVM -O1 by default, recorded in a run's fingerprint; a tiny run computes in one thread."""

import json
import subprocess
import sys

import pytest

from gymlab.recipes.resolve import resolve
from gymlab.session.jax_setup import is_tiny
from tests.running import assert_same_run, environment, gymlab

SCRIPT = """
import json, sys
import jax
from pathlib import Path
from gymlab.session.jax_setup import set_up_jax
from gymlab.runs.manifest import fingerprint
from jaxlib import xla_client

if sys.argv[2] == "late":
    jax.numpy.zeros(1).block_until_ready()
set_up_jax(Path(sys.argv[1]))
set_up_jax(Path(sys.argv[1]))
told = fingerprint()["variables"].get("XLA_FLAGS")
level = xla_client.CompileOptions().executable_build_options.debug_options.xla_backend_optimization_level
print(json.dumps([told, level]))
"""


@pytest.mark.parametrize(
    ("flags", "moment", "told", "level"),
    [
        (None, "early", "--xla_backend_optimization_level=1", 1),
        ("--xla_backend_optimization_level=2", "early", "--xla_backend_optimization_level=2", 2),
        ("--xla_cpu_enable_fast_math=false", "early",
         "--xla_cpu_enable_fast_math=false --xla_backend_optimization_level=1", 1),
        (None, "late", None, 3),
    ],
)  # fmt: skip
def test_the_level_told_is_the_level_used(tmp_path, flags, moment, told, level):
    environ = environment(**({} if flags is None else {"XLA_FLAGS": flags}))
    if flags is None:
        del environ["XLA_FLAGS"]  # the tests' own
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), moment],
        check=True, env=environ, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert json.loads(done.stdout) == [told, level]


SHORT = ["--full-budget", "eval.every=100%", "eval.final_episodes=2", "checkpoints.every=50%"]


@pytest.mark.parametrize(
    ("recipe", "tiny"),
    [
        (["CartPole-v1:ppo"], True),
        (["CartPole-v1:a2c"], True),
        (["Pendulum-v1:ppo"], True),
        (["CartPole-v1:ppo", "batch_size=512", "n_steps=64"], False),
        (["CartPole-v1:ppo", "n_envs=1024", "batch_size=256"], False),
        (["CartPole-v1:ppo", "policy.hidden=[128]"], False),
        (["CartPole-v1:ppo", "engine=gymnasium"], True),
        (["CartPole-v1:reinforce"], False),
        (["LunarLander-v3:ppo"], False),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_tiny(recipe, tiny):
    assert is_tiny(resolve(recipe[0], recipe[1:]).recipe) is tiny


@pytest.mark.parametrize("recipe", [["CartPole-v1:ppo", "budget=5k"], ["CartPole-v1:a2c", "budget=2k"]])
def test_one_thread_and_two_give_the_same_run(tmp_path, recipe):
    alone = gymlab("train", *recipe, *SHORT, "--run-id", "one", cwd=tmp_path)
    assert "finished" in alone.stdout
    gymlab("train", *recipe, *SHORT, "--run-id", "two", cwd=tmp_path, PJRT_NPROC="2")
    assert_same_run(tmp_path / "runs" / "one", tmp_path / "runs" / "two")
