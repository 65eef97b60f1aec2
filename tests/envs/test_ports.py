"""Every classic-control port against its Gymnasium env, over 100,000 random transitions each; and `find_port`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gymlab.core.errors import UserError
from gymlab.envs.ports.registry import PORTS, find_port

N = 100_000
ULP = 2.0**-23
KEY = jax.random.key(0)
MAX_ANGLE = 12 * 2 * np.pi / 360


def port_of(env_id: str, **kwargs: Any) -> Any:
    port = find_port(env_id, kwargs, None)
    assert not isinstance(port, str), port
    return port


def gym_env(env_id: str, **kwargs: Any) -> Any:
    """Built without gymnasium.make, which warns of CartPole-v0's age."""
    spec = gymnasium.spec(env_id)
    return gymnasium.envs.registration.load_env_creator(spec.entry_point)(**{**spec.kwargs, **kwargs})


@dataclass(frozen=True)
class Case:
    """A classic-control env: where to draw states from, and how far a state is from where a flag flips."""

    env_id: str
    high: tuple[float, ...]
    margin: Callable[[np.ndarray], np.ndarray]
    low: tuple[float, ...] | None = None
    angles: tuple[int, ...] = ()  # columns that mean the same a turn later
    kwargs: dict[str, Any] = field(default_factory=dict)
    n: int = N


def car_margin(goal: float, goal_velocity: float = 0.0) -> Callable[[np.ndarray], np.ndarray]:
    return lambda s: np.minimum(abs(s[:, 0] - goal), abs(s[:, 1] - goal_velocity))


def pole_margin(s: np.ndarray) -> np.ndarray:
    return np.minimum(abs(abs(s[:, 0]) - 2.4), abs(abs(s[:, 2]) - MAX_ANGLE))


def acrobot_margin(s: np.ndarray) -> np.ndarray:
    return abs(-np.cos(s[:, 0]) - np.cos(s[:, 1] + s[:, 0]) - 1.0)


POLE = (2.5, 3.0, 0.23, 3.0)
CAR = {"low": (-1.2, -0.07), "high": (0.6, 0.07)}
AS_USED = {"xla_backend_optimization_level": 3}  # the bounds on rounding are those of optimised code
CASES = [
    Case("CartPole-v1", POLE, pole_margin),
    Case("CartPole-v0", POLE, pole_margin, kwargs={"sutton_barto_reward": True}, n=5000),
    Case("Acrobot-v1", (np.pi, np.pi, 4 * np.pi, 9 * np.pi), acrobot_margin, angles=(0, 1)),
    Case("MountainCar-v0", margin=car_margin(0.5), **CAR),
    Case("MountainCar-v0", margin=car_margin(0.5, 0.02), kwargs={"goal_velocity": 0.02}, n=5000, **CAR),
    Case("MountainCarContinuous-v0", margin=car_margin(0.45), **CAR),
    Case("MountainCarContinuous-v0", margin=car_margin(0.45, 0.03), kwargs={"goal_velocity": 0.03}, n=5000, **CAR),
    Case("Pendulum-v1", (np.pi, 8.0), lambda s: np.full(len(s), np.inf), angles=(0,)),
    Case("Pendulum-v1", (np.pi, 8.0), lambda s: np.full(len(s), np.inf), angles=(0,), kwargs={"g": 9.81}, n=5000),
]
CLASSIC = sorted({case.env_id for case in CASES})
NAMES = [" ".join([c.env_id, *map(str, c.kwargs)]) for c in CASES]


def draw(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Random states and actions, exactly representable in float32."""
    rng = np.random.default_rng(1)
    high = np.array(case.high)
    states = rng.uniform(-high if case.low is None else case.low, high, (case.n, len(high)))
    space = gym_env(case.env_id).action_space
    if isinstance(space, gymnasium.spaces.Discrete):
        actions = rng.integers(0, space.n, case.n)
    else:
        # One action in ten lies beyond the bounds: the env clips it, and may charge for the unclipped one.
        actions = rng.uniform(1.1 * space.low, 1.1 * space.high, (case.n, 1)).astype(np.float32).astype(np.float64)
    return states.astype(np.float32).astype(np.float64), actions


def gym_step(case: Case, states: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    env = gym_env(case.env_id, **case.kwargs)
    env.reset(seed=0)
    after, reward, terminated = np.empty_like(states), np.empty(case.n), np.empty(case.n, bool)
    for i in range(case.n):
        env.state, env.steps_beyond_terminated = states[i], None
        _, reward[i], terminated[i], _, _ = env.step(actions[i])
        after[i] = env.state
    return after, reward, terminated


def port_step(case: Case, states: np.ndarray, actions: np.ndarray, dtype: Any) -> list[np.ndarray]:
    port = port_of(case.env_id, **case.kwargs)
    with jax.enable_x64(dtype == np.float64):
        state = type(port.reset(KEY, 1))(*(jnp.asarray(column, dtype) for column in states.T))
        action = jnp.asarray(actions, jnp.int32 if actions.dtype.kind == "i" else dtype)
        after, reward, terminated = jax.jit(port.step, compiler_options=AS_USED)(state, action, KEY)
        assert reward.dtype == dtype
        return [np.stack(after, axis=-1).astype(np.float64), np.asarray(reward, np.float64), np.asarray(terminated)]


def distance(case: Case, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    gap = abs(a - b)
    for column in case.angles:
        gap[:, column] = np.minimum(gap[:, column], abs(2 * np.pi - gap[:, column]))
    return gap


def rounding(case: Case, states: np.ndarray, actions: np.ndarray, after: np.ndarray) -> np.ndarray:
    """(n, columns) what float32 may lose: ten times the effect of moving each input by its last bit, in float64."""
    rng = np.random.default_rng(2)
    effect = np.zeros(len(states))
    for _ in range(4):
        nudged = states * (1 + ULP * rng.choice([-1, 1], states.shape))
        effect = np.maximum(effect, distance(case, port_step(case, nudged, actions, np.float64)[0], after).max(axis=1))
    return 10 * (effect[:, None] + ULP * np.maximum(abs(after), 1e-2))


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_a_step_from_the_same_state_equals_gymnasiums(case: Case) -> None:
    states, actions = draw(case)
    after, reward, terminated = gym_step(case, states, actions)
    assert case.env_id == "Pendulum-v1" or 0.001 < terminated.mean() < 0.5

    # In float64 the port is Gymnasium's formula (whose continuous car rounds its state to float32 at the end).
    exact_after, exact_reward, exact_terminated = port_step(case, states, actions, np.float64)
    tolerance = ULP if case.env_id == "MountainCarContinuous-v0" else 1e-9
    assert distance(case, exact_after, after).max() < tolerance
    np.testing.assert_allclose(exact_reward, reward, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(exact_terminated, terminated)

    # In float32 it differs by rounding, and a flag only where the state is that close to its threshold.
    bound = rounding(case, states, actions, after)
    near = case.margin(after) <= bound.max(axis=1)
    got_after, got_reward, got_terminated = port_step(case, states, actions, np.float32)
    assert (distance(case, got_after, after) <= bound).all()
    np.testing.assert_array_equal(got_terminated[~near], terminated[~near])
    np.testing.assert_allclose(got_reward[~near], reward[~near], rtol=1e-6, atol=1e-6)
    assert near.mean() < 0.01


# Rounding grows e-fold in a quarter of a second along an unstable pole, and the acrobot is chaotic: short runs there.
FLOAT32_STEPS = {"CartPole-v1": 25, "Acrobot-v1": 25, "Pendulum-v1": 100}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("env_id", [env_id for env_id in CLASSIC if env_id != "CartPole-v0"])
def test_a_trajectory_stays_with_gymnasiums(env_id: str, dtype: Any) -> None:
    steps = 200 if dtype == np.float64 else FLOAT32_STEPS.get(env_id, 200)
    env, port, n = gym_env(env_id), port_of(env_id), 8
    env.reset(seed=3)
    env.action_space.seed(3)
    actions = np.array([[env.action_space.sample() for _ in range(n)] for _ in range(steps)])
    first = port.reset(KEY, n)
    with jax.enable_x64(dtype == np.float64):

        def step(state: Any, action: Any) -> Any:
            state, reward, _ = port.step(state, action, KEY)
            return state, (port.observe(state), reward)

        start = jax.tree.map(lambda column: jnp.asarray(column, dtype), first)
        seen = [np.asarray(x) for x in jax.jit(jax.lax.scan, static_argnums=0)(step, start, jnp.asarray(actions))[1]]
    for row in range(n):
        env.state = np.stack(first, axis=-1)[row].astype(np.float64)
        for t in range(steps):
            env.steps_beyond_terminated = None
            obs, reward, _, _, _ = env.step(actions[t, row])
            tolerance = 1e-3 if dtype == np.float32 else 1e-5
            np.testing.assert_allclose(seen[0][t, row], obs, rtol=tolerance, atol=tolerance)
            np.testing.assert_allclose(seen[1][t, row], reward, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("env_id", CLASSIC)
def test_first_observations_are_distributed_as_gymnasiums(env_id: str) -> None:
    port, env = port_of(env_id), gym_env(env_id)
    ours = np.asarray(port.observe(port.reset(KEY, 20_000)))
    env.reset(seed=0)
    theirs = np.stack([env.reset()[0] for _ in range(4000)])
    for column in range(ours.shape[1]):
        a, b = np.sort(ours[:, column]), np.sort(theirs[:, column])
        both = np.concatenate([a, b])
        gap = abs(np.searchsorted(a, both, side="right") / len(a) - np.searchsorted(b, both, side="right") / len(b))
        # Kolmogorov-Smirnov at one in ten thousand
        assert gap.max() < 2.23 * np.sqrt(1 / len(a) + 1 / len(b))
    state = np.stack(port.reset(KEY, 20_000), axis=-1)
    moving = state[:, state.std(axis=0) > 0]
    assert abs(np.corrcoef(moving, rowvar=False) - np.eye(moving.shape[1])).max() < 0.03


def test_every_port_has_gymnasiums_spaces_and_time_limit() -> None:
    for env_id in PORTS:
        port, env = port_of(env_id), gym_env(env_id)
        assert port.observation_space == env.observation_space
        assert port.action_space == env.action_space
        assert port.max_episode_steps == (gymnasium.spec(env_id).max_episode_steps or 1000)
        assert find_port(env_id, {}, 7).max_episode_steps == 7  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("env_id", "kwargs", "reason"),
    [
        ("LunarLander-v3", {}, "LunarLander-v3 has no compiled port"),
        ("CartPole-v1", {"render_mode": "rgb_array"}, "the compiled port of CartPole-v1 has no kwarg 'render_mode'"),
        ("CartPole-v1", {"max_episode_steps": 9}, "the compiled port of CartPole-v1 has no kwarg 'max_episode_steps'"),
        ("Pendulum-v1", {"g": "heavy"}, "the compiled port of Pendulum-v1 takes no g='heavy'"),
        ("MountainCar-v0", {"goal_velocity": True}, "the compiled port of MountainCar-v0 takes no goal_velocity=True"),
        (
            "Taxi-v4",
            {"fickle_passenger": True},
            "Taxi-v4 with fickle_passenger=True does not follow its transition table",
        ),
        ("FrozenLake-v1", {"map_name": None}, "FrozenLake-v1 with map_name=None draws a new map for every env"),
        ("FrozenLake-v1", {"map_name": "9x9"}, "FrozenLake-v1 cannot be made with these kwargs: KeyError: '9x9'"),
    ],
)
def test_what_no_port_can_do_is_named(env_id: str, kwargs: dict[str, Any], reason: str) -> None:
    assert find_port(env_id, kwargs, None) == reason


def test_an_id_registered_anew_is_not_imitated(monkeypatch: pytest.MonkeyPatch) -> None:
    other = gymnasium.envs.registration.EnvSpec("CartPole-v1", entry_point="elsewhere:Env")
    monkeypatch.setitem(gymnasium.registry, "CartPole-v1", other)
    assert "registered as something else" in str(find_port("CartPole-v1", {}, None))


def test_a_bandit_without_arms_is_the_users_mistake() -> None:
    with pytest.raises(UserError, match="n_arms=0 must be at least 1"):
        find_port("Bandit-v0", {"n_arms": 0}, None)


def test_the_catalogue_imports_neither_jax_nor_gymnasium() -> None:
    code = "import sys, gymlab.envs.ports.registry; sys.exit(any(m in sys.modules for m in ('jax', 'gymnasium')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
