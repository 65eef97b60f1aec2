"""What any stack of wrappers promises: the VecStep contract, exact resume, and the same on NumPy and JAX arrays."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from gymlab.core.clock import Clock
from gymlab.core.errors import UserError
from gymlab.core.types import Decision, Spaces, VecStep
from gymlab.envs.engines.gymnasium import GymnasiumEngine
from gymlab.envs.engines.jax import JaxEngine
from gymlab.envs.engines.processes import ProcessEngine
from gymlab.envs.make import split_wrappers
from gymlab.envs.observation_spaces import leaf_spaces, leaf_values
from gymlab.envs.ports.registry import find_port
from gymlab.envs.settings import EnvSettings
from gymlab.envs.step_buffer import leaf_dtype, leaves
from gymlab.envs.transform import transformed, unmasked
from gymlab.recipes.resolve import load_yaml_text
from gymlab.session.build import build
from gymlab.training.collector_compiled import CompiledCollector
from gymlab.training.collector_host import HostCollector
from gymlab.training.named_tensors import from_tensors, to_tensors
from gymlab.training.state import apply_transforms, transform_action
from tests.training.test_collectors import Stepped

LIMIT = 4  # steps of an episode: most are cut early
STEPS = 13
KEYS = jax.random.split(jax.random.key(3), STEPS + 1)
ENVS = [
    "CartPole-v1",
    "Pendulum-v1",
    "FrozenLake-v1",
    "Taxi-v4",
    "tests.example_envs:Custom-v0",
    "tests.example_envs:Variable-v0",
]
PARTS = [
    {"action_noise": 0.3}, "cartpole_centring", "clip_reward", {"count_bonus": {"bins": 3}}, "flatten",
    {"frame_skip": 2}, {"frame_stack": 3}, {"mask_actions": [1]}, {"observation_noise": 0.1}, "one_hot",
    {"previous_actions": {"k": 2, "rewards": True}}, {"remap_actions": [1, 0]}, {"remap_actions": [[-1], [1]]},
    {"reward_weights": {"env": 0.5}}, "scale_observation", {"scale_reward": 0.1}, {"sticky_actions": 0.3},
    "time_aware", {"time_penalty": 0.2},
]  # fmt: skip
STACKS = st.lists(st.sampled_from(PARTS), min_size=2, max_size=8).map(tuple)
FEW = settings(max_examples=25, deadline=None, derandomize=True)


class Stacked:
    """A host engine behind its transforms, stepped with random actions."""

    def __init__(self, env: str, wrappers: tuple, n: int, make: Any = GymnasiumEngine) -> None:
        self.settings = EnvSettings(id=env, wrappers=wrappers, max_episode_steps=LIMIT)
        self.transforms = split_wrappers(self.settings)[1]
        self.engine = make(self.settings, n, 5)
        self.spaces = transformed(self.engine.spaces, self.transforms)
        self.states = tuple(transform.init(n) for transform in self.transforms)
        self.t = 0

    def reset(self) -> VecStep:
        return self._apply(self.engine.reset())

    def step(self) -> tuple[VecStep, VecStep]:
        """The engine's step, copied, and what the transforms make of it."""
        space = self.spaces.action
        space.seed(self.t)
        actions = np.stack([np.asarray(space.sample()) for _ in range(self.engine.n_envs)])
        if self.spaces.masked:  # whatever is legal
            actions = np.array([int(np.flatnonzero(row)[self.t % row.sum()]) for row in self.mask])
        self.states, sent = transform_action(self.transforms, self.states, actions, KEYS[self.t])
        raw = jax.tree.map(np.copy, self.engine.step(sent))
        return raw, self._apply(raw)

    def _apply(self, raw: VecStep) -> VecStep:
        self.states, step = apply_transforms(self.transforms, self.states, raw, KEYS[self.t])
        self.t += 1
        if self.spaces.masked:
            self.mask = np.array(step.obs.mask)
        return step


@cache
def spaces_of(env: str) -> Spaces:
    with GymnasiumEngine(EnvSettings(id=env), 1, 0) as engine:
        return engine.spaces


def usable(env: str, wrappers: tuple) -> tuple:
    """Those that fit here after the ones before; what does not must be told as the user's mistake."""
    kept: tuple = ()
    for part in wrappers:
        name, problem = part if isinstance(part, str) else next(iter(part)), ""
        tried = EnvSettings(id=env, wrappers=(*kept, part))
        try:
            transformed(spaces_of(env), split_wrappers(tried)[1])
            kept = tried.wrappers
        except UserError as error:
            problem = str(error)
        assert not problem or name in problem or "reads the env's own observations" in problem
    return kept


def assert_contract(step: VecStep, raw: VecStep | None, envs: Stacked, *, inside: bool) -> None:
    n = envs.engine.n_envs
    for tree in (step.obs, step.successor):
        flat = leaf_values(envs.spaces.observation, unmasked(tree))
        expected = leaf_spaces(envs.spaces.observation)
        assert [(leaf.shape, leaf.dtype) for leaf in flat] == [((n, *s.shape), leaf_dtype(s)) for s in expected]
        if inside:
            rows = [np.asarray(leaf, s.dtype) for leaf, s in zip(flat, expected, strict=True)]
            assert all(s.contains(row) for leaf, s in zip(rows, expected, strict=True) for row in leaf)
        if envs.spaces.masked:
            assert tree.mask.shape == (n, envs.spaces.action.n)
            assert tree.mask.any(axis=1).all()
    for name in ("reward", "terminated", "truncated", "fresh"):
        assert raw is None or getattr(step, name).tobytes() == getattr(raw, name).tobytes()
    for obs, successor in zip(leaves(step.obs), leaves(step.successor), strict=True):
        assert obs[~step.fresh].tobytes() == successor[~step.fresh].tobytes()
    assert step.train_reward.dtype == np.float32
    if step.components:
        assert np.allclose(sum(step.components.values()), step.train_reward, atol=1e-5)
    if raw is None:
        assert not step.train_reward.any()
        assert all(a.tobytes() == b.tobytes() for a, b in zip(leaves(step.obs), leaves(step.successor), strict=True))


def dump(step: VecStep) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(step)]


@FEW
@given(st.sampled_from(ENVS), STACKS, st.sampled_from([1, 3]))
def test_the_contract_holds_for_random_stacks(env, wrappers, n):
    wrappers = usable(env, wrappers)
    envs = Stacked(env, wrappers, n)
    inside = not any("noise" in str(part) for part in wrappers) and env != "CartPole-v1"  # it leaves its bounds
    with envs.engine:
        assert_contract(envs.reset(), None, envs, inside=inside)
        cuts = 0
        for _ in range(STEPS):
            raw, step = envs.step()
            assert_contract(step, raw, envs, inside=inside)
            cuts += int(step.fresh.sum())
        assert cuts >= n


@FEW
@given(st.sampled_from(ENVS), STACKS)
def test_a_random_stack_resumes_exactly(env, wrappers):
    wrappers = usable(env, wrappers)
    envs, again = Stacked(env, wrappers, 3), Stacked(env, wrappers, 3)
    with envs.engine, again.engine:
        envs.reset()
        for _ in range(STEPS // 2):
            envs.step()
        snapshot, saved = envs.engine.snapshot(), to_tensors(envs.states)
        assert again.engine.restore(snapshot).exact
        again.states, again.t = from_tensors(again.states, saved), envs.t
        again.mask = getattr(envs, "mask", None)
        for _ in range(STEPS // 2):
            assert dump(envs.step()[1]) == dump(again.step()[1])


@pytest.mark.parametrize(
    ("skip", "limit", "expected"),
    [
        ([{"frame_skip": 4}], 20, [0.2, 0.4, 0.6, 0.8, 1.0]),  # five steps of four
        ([{"frame_skip": 3}], 10, [0.25, 0.5, 0.75, 1.0]),  # 3 + 3 + 3 + 1
        ([{"frame_skip": 2}, {"frame_skip": 3}], 12, [0.5, 1.0]),
    ],
)
@pytest.mark.parametrize("make", [GymnasiumEngine, ProcessEngine])
def test_the_time_limit_is_used_up_at_the_truncation_under_frame_skip(skip, limit, expected, make):
    settings = EnvSettings(id="MountainCar-v0", wrappers=(*skip, "time_aware"), max_episode_steps=limit)
    (time,) = split_wrappers(settings)[1]
    with make(settings, 1, 5) as engine:
        time.spaces(engine.spaces)
        state, _ = time.apply(time.init(1), engine.reset())
        seen = []
        while True:
            state, step = time.apply(state, engine.step(np.array([1])))
            seen.append(float(step.successor[0, -1]))
            if step.truncated[0]:
                break
    assert seen == pytest.approx(expected)


def test_a_long_stack_keeps_the_contract_for_64_envs():
    wrappers = (
        "cartpole_centring", {"time_penalty": 0.1}, {"reward_weights": {"centring": 2.0}}, {"observation_noise": 0.1},
        "scale_observation", {"frame_stack": 2}, {"previous_actions": 3}, "time_aware", {"action_noise": 0.2},
        {"remap_actions": [1, 0]}, {"clip_reward": 1},
    )  # fmt: skip
    envs = Stacked("CartPole-v1", wrappers, 64)
    with envs.engine:
        assert_contract(envs.reset(), None, envs, inside=False)
        for _ in range(STEPS):
            raw, step = envs.step()
            assert_contract(step, raw, envs, inside=False)
    assert envs.spaces.observation.shape == (4 * 2 + 3 * 2 + 1,)
    assert set(step.components) == {"env", "centring", "time", "clipped"}


BOTH_ENGINES = {
    "CartPole-v1": (
        {"observation_noise": 0.1}, "cartpole_centring", {"frame_stack": 2}, {"previous_actions": 2},
        {"action_noise": 0.3}, {"remap_actions": [1, 0]}, {"mask_actions": [0]}, {"reward_weights": {"centring": 2}},
    ),
    "MountainCar-v0": (
        "mountain_car_energy", {"count_bonus": {"bins": 5}}, {"clip_reward": 1}, "scale_observation", "time_aware",
    ),
    "Pendulum-v1": ({"action_noise": 0.3}, {"time_penalty": 1}, {"previous_actions": {"rewards": True}}),
    "FrozenLake-v1": ({"count_bonus": 1}, "one_hot", {"frame_stack": 2}, {"remap_actions": [0, 3, 3]}),
}  # fmt: skip


@pytest.mark.parametrize("env_id", BOTH_ENGINES)
def test_host_and_compiled_collectors_agree_behind_transforms(env_id):
    # The policy is random numbers of its key, the same in both.
    n, T = 4, 8
    engine = JaxEngine(find_port(env_id, {}, LIMIT), n)
    stack = EnvSettings(id=env_id, wrappers=BOTH_ENGINES[env_id])
    transforms = split_wrappers(stack)[1]
    space = transformed(engine.spaces, transforms).action

    def act(policy, obs, carry, key, greedy):
        if isinstance(space, spaces.Discrete):
            action = jax.random.randint(key, (n,), 0, int(space.n))
        else:
            action = jax.random.normal(key, (n, *space.shape))
        return Decision(action, jnp.zeros(n), carry, {})

    compiled = CompiledCollector(engine, transforms, act, (), T)
    stepped = Stepped(engine)
    host = HostCollector(stepped, split_wrappers(stack)[1], act, (), T)
    first = jax.random.key(1)
    group = jax.jit(compiled.begin)(first)
    stepped.begin(first)
    host_group = host.begin(first)
    collect = jax.jit(compiled.collect)
    for update in range(3):
        key = jax.random.key(10 + update)
        stepped.use(key)
        group, one = collect((), group, key)
        host_group, two = host.collect((), host_group, key)
        assert one.fresh.any()
        assert set(one.components) == set(two.components) != set()
        for name, a, b in zip(one._fields, one, two, strict=True):
            jax.tree.map(lambda x, y, m=name: np.testing.assert_allclose(x, y, atol=1e-4, err_msg=m), a, b)
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-4), group.transforms, host_group.transforms)


RECIPE = """
env:
  id: {env}
  max_episode_steps: 7
  wrappers: [{shaper}, count_bonus: {{bins: 4}}, observation_noise: 0.1, frame_stack: 2, previous_actions, time_aware]
variants:
  small: {{n_envs: 3, n_steps: 6, engine: {engine}, policy: {{hidden: [4]}}, ppo: {{batch_size: 18, epochs: 1}}}}
"""


@pytest.mark.parametrize("engine", [pytest.param("gymnasium", marks=pytest.mark.slow), "jax"])
def test_a_run_behind_transforms_resumes_exactly(engine):
    recipe = load_yaml_text(RECIPE.format(env="MountainCar-v0", shaper="mountain_car_energy", engine=engine))
    parts = build(recipe, 0)
    assert "evaluation leaves out observation_noise(std=0.1)" in parts.notes
    hp = parts.plan.scheduled(Clock(), 1)
    program = parts.program
    state = program.start(0)
    for update in range(2):
        state = program.advance(state, Clock(updates=update), hp, np.inf).state
    saved = program.save(state)
    counted = [name for name in saved if name.startswith("groups/0/transforms/1")]
    assert int(saved[counted[0]].sum()) == 2 * 3 * 6  # every step of every env
    whole = program.save(program.advance(state, Clock(updates=2), hp, np.inf).state)
    other = build(recipe, 0).program
    resumed, reasons = other.load(other.start(0), saved)
    assert reasons == []
    again = other.save(other.advance(resumed, Clock(updates=2), hp, np.inf).state)
    assert [name for name in whole if whole[name].tobytes() != again[name].tobytes()] == []
    program.close()
    other.close()
