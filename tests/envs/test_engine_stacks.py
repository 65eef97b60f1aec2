"""Random stacks of wrappers, those around each env included, on every host engine, for one env and for many."""

from __future__ import annotations

import importlib.util
from functools import cache, partial
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gymlab.core.errors import UserError
from gymlab.core.types import Spaces
from gymlab.envs.engines.gymnasium import GymnasiumEngine
from gymlab.envs.engines.processes import ProcessEngine
from gymlab.envs.make import split_wrappers
from gymlab.envs.settings import EnvSettings, Part
from gymlab.envs.transform import transformed
from gymlab.training.named_tensors import from_tensors, to_tensors
from tests.envs.test_transform_stacks import LIMIT, PARTS, STEPS, Stacked, assert_contract, dump

PICTURES = [{"atari": {"size": [12, 12], "stack": 2, "noop_max": 3}}, "grayscale", {"resize": [9, 7]}]
AROUND: dict[str, list[Any]] = {  # beside those that fit any env
    "CartPole-v1": [{"pixels": {"size": [8, 12]}}, {"randomize": {"gravity": [9, 11], "length": [0.4, 0.6]}}],
    "LunarLander-v3": [{"randomize": {"gravity": [-11, -8], "wind_power": [0, 15]}}],
    "MountainCar-v0": ["mountain_car_energy", {"randomize": {"gravity": [0.002, 0.003]}}],
    "tests.example_envs:Custom-v0": [],
    "tests.example_envs:Masked-v0": [],
}
PACKAGED: dict[str, tuple[str, list[Any]]] = {
    "ALE/Pong-v5": ("ale_py", [*PICTURES, {"objects": {"noop_max": 3}}]),
    "HalfCheetah-v5": ("mujoco", [{"env_parts": {"forward": "reward_forward", "control": "reward_ctrl"}}]),
    "VizdoomBasic-v1": ("vizdoom", [{"doom": {"size": [9, 12], "stack": 2}}, {"frame_skip": 3}]),
}
INSTALLED = {env: parts for env, (module, parts) in PACKAGED.items() if importlib.util.find_spec(module) is not None}
ENVPOOL = ["CartPole-v1", "Pendulum-v1", "MountainCar-v0", "BipedalWalker-v3", "CliffWalking-v1"]


def engines(kind: str) -> Any:
    if kind == "envpool":
        pytest.importorskip("envpool", reason="pip install 'gymlab[envpool]'")
        from gymlab.envs.engines.envpool import EnvPoolEngine

        return EnvPoolEngine
    return partial(ProcessEngine, workers=2, timeout=30) if kind == "processes" else GymnasiumEngine


@cache
def _spaces(env: str, env_side: str) -> Spaces | str:
    """What an env shows behind the wrappers around it (as JSON), or why these do not fit it."""
    wrappers = EnvSettings.model_validate_json(env_side).wrappers
    try:
        with GymnasiumEngine(EnvSettings(id=env, wrappers=wrappers), 1, 0) as engine:
            return engine.spaces
    except UserError as error:
        return str(error)


def fitting(env: str, wrappers: tuple) -> tuple[Part, ...]:
    """Those that fit here after the ones before; what does not must be told as the user's mistake."""
    kept: tuple[Part, ...] = ()
    for part in wrappers:
        tried = EnvSettings(id=env, wrappers=(*kept, part))
        env_side, transforms = split_wrappers(tried)
        inner = _spaces(env, EnvSettings(id=env, wrappers=env_side).model_dump_json())
        if isinstance(inner, str):
            continue
        try:
            transformed(inner, transforms)
            kept = tried.wrappers
        except UserError:
            continue
    return kept


@st.composite
def stacks(draw: Any, envs: dict[str, list[Any]], most: int = 6) -> tuple[str, tuple[Part, ...]]:
    """An env and a stack that fits it, one of its own wrappers first where it has any."""
    env = draw(st.sampled_from(sorted(envs)))
    own = [draw(st.sampled_from(envs[env]))] if envs[env] else []
    rest = draw(st.lists(st.sampled_from([*PARTS, *envs[env]]), max_size=most))
    wrappers = fitting(env, (*own, *rest))
    assume(wrappers)
    return env, wrappers


def keeps_the_contract(env: str, wrappers: tuple, n: int, make: Any) -> None:
    envs = Stacked(env, wrappers, n, make)
    with envs.engine:
        assert_contract(envs.reset(), None, envs, inside=False)
        cuts = 0
        for _ in range(STEPS):
            raw, step = envs.step()
            assert_contract(step, raw, envs, inside=False)
            assert not (step.terminated & step.truncated).any()
            cuts += int(step.fresh.sum())
        assert cuts >= n * (STEPS // LIMIT - 1)


def resumes_exactly(env: str, wrappers: tuple, n: int, make: Any) -> None:
    envs, again = Stacked(env, wrappers, n, make), Stacked(env, wrappers, n, make)
    with envs.engine, again.engine:
        envs.reset()
        for _ in range(STEPS // 2):
            envs.step()
        restored = again.engine.restore(envs.engine.snapshot())
        assert restored.exact, restored.reason
        again.states, again.t = from_tensors(again.states, to_tensors(envs.states)), envs.t
        again.mask = getattr(envs, "mask", None)
        for _ in range(STEPS // 2):
            assert dump(envs.step()[1]) == dump(again.step()[1])


def few(examples: int) -> settings:
    # Which wrappers fit is found by making envs, which takes as long as it takes.
    slow = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    return settings(max_examples=examples, deadline=None, derandomize=True, suppress_health_check=slow)


SEVERAL = st.sampled_from([1, 3, 64])


@few(10)
@given(stacks(AROUND), SEVERAL)
def test_wrappers_around_each_env_keep_the_contract(stack: Any, n: int) -> None:
    keeps_the_contract(*stack, n, GymnasiumEngine)


@few(6)
@given(stacks(AROUND), SEVERAL)
def test_wrappers_around_each_env_resume_exactly(stack: Any, n: int) -> None:
    resumes_exactly(*stack, n, GymnasiumEngine)


@few(6)
@given(stacks(dict.fromkeys(ENVPOOL, ())), SEVERAL)
def test_transforms_over_envpool_keep_the_contract_and_resume_exactly(stack: Any, n: int) -> None:
    env, wrappers = stack
    make = engines("envpool")
    wrappers = tuple(part for part in wrappers if part not in split_wrappers(EnvSettings(id=env, wrappers=wrappers))[0])
    keeps_the_contract(env, fitting(env, wrappers), n, make)
    resumes_exactly(env, fitting(env, wrappers), n, make)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sync", "processes"])
@pytest.mark.parametrize("env", [*AROUND, *PACKAGED])
def test_every_stack_on_every_engine_keeps_the_contract_and_resumes_exactly(kind: str, env: str) -> None:
    if env not in AROUND and env not in INSTALLED:
        pytest.skip(f"needs {PACKAGED[env][0]}")

    @few(2 if kind == "processes" else 8)
    @given(stacks({env: {**AROUND, **INSTALLED}[env]}), st.sampled_from([1, 3] if env in PACKAGED else [1, 3, 64]))
    def check(stack: Any, n: int) -> None:
        keeps_the_contract(*stack, n, engines(kind))
        resumes_exactly(*stack, n, engines(kind))

    check()
