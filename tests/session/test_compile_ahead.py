"""What is compiled in the background is what the run then uses: nothing is compiled twice, and it learns the same."""

import math

import jax
import numpy as np
import pytest

from gymlab.core.clock import Clock
from gymlab.core.jax_keys import named_key, run_key, stream_key
from gymlab.recipes.resolve import resolve
from gymlab.runs.metrics_reader import MetricsReader
from gymlab.runs.paths import RunPaths
from gymlab.session.build import build
from gymlab.session.session import Options
from gymlab.session.start import train
from gymlab.training.compile_time import compile_seconds
from gymlab.training.named_tensors import to_tensors

TINY = ["n_envs=2", "n_steps=8", "batch_size=8", "epochs=1", "policy.hidden=[4]", "metrics.statistics=basic"]


def made(*, ahead):
    parts = build(resolve("CartPole-v1:ppo", TINY).recipe, 0)
    return parts, parts.program.start(0, ahead=ahead)


def advance(parts, state):
    return parts.program.advance(state, Clock(), parts.plan.scheduled(Clock(), 1), math.inf)


def test_updates_compiled_ahead_are_not_compiled_again_and_learn_the_same():
    parts, state = made(ahead=True)
    parts.program._compiling.result()
    before = compile_seconds()
    ahead = advance(parts, state)
    assert compile_seconds() == before
    late = advance(*made(ahead=False))
    assert compile_seconds() > before  # so that the line above could fail
    np.testing.assert_equal(ahead.rows, late.rows)
    for name, tensor in to_tensors(ahead.state).items():
        np.testing.assert_array_equal(tensor, to_tensors(late.state)[name], name)


def test_a_program_starts_again_without_compiling():
    parts, state = made(ahead=True)
    advance(parts, state)
    before = compile_seconds()
    advance(parts, parts.program.start(1, ahead=True))
    assert compile_seconds() == before


def test_a_prepared_evaluation_compiles_nothing():
    parts, state = made(ahead=False)
    policy, obs = parts.agent.policy(state), state.groups[0].obs
    parts.evaluator.prepare(policy, obs, 6, 3)
    before = compile_seconds()
    parts.evaluator.evaluate(policy, episodes=6, seed=0, max_envs=3, steps=5)
    assert compile_seconds() == before
    parts.evaluator.evaluate(policy, episodes=6, seed=0, max_envs=4, steps=5)
    assert compile_seconds() > before


def test_what_was_compiled_before_the_first_update_is_in_its_row(tmp_path):
    small = [*TINY, "budget=160", "eval.every=100%", "eval.final_episodes=2", "checkpoints.every=100%"]
    result = train(resolve("CartPole-v1:ppo", small).recipe, Options(), tmp_path)
    with MetricsReader(RunPaths(result.run_dir).metrics) as reader:
        assert reader.read(["time/compile"])["time/compile"][0] > 0


@pytest.mark.parametrize("seed", [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40 + 7])
def test_a_runs_key_is_jaxs(seed):
    np.testing.assert_array_equal(jax.random.key_data(run_key(seed)), jax.random.key_data(jax.random.key(seed)))
    assert run_key(seed).dtype == jax.random.key(seed).dtype
    for name in (("evaluation",), ("first reset", 0), ("first reset", 3)):
        named = stream_key(run_key(seed), *name)
        np.testing.assert_array_equal(jax.random.key_data(named_key(seed, *name)), jax.random.key_data(named))
