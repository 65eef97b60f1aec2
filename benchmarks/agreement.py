"""How far whole episodes on a compiled port agree with the same episodes on its Gymnasium env.

Envs without chance after the reset play the same episodes on both sides: the same first states (Gymnasium's), the
same action rule on what either side observes, the same random numbers in it. Half of the episodes follow a competent
rule with one action in ten drawn at random, half act at random. Envs with chance play episodes of their own on either
side, and the means are compared. tests/envs/test_port_agreement.py asserts the limits.

    python benchmarks/agreement.py        # prints the table of docs/evaluation.md
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from gymlab.core.jax_keys import run_key, stream_key
from gymlab.envs.ports.bandit import Bandit
from gymlab.envs.ports.registry import PORTS, find_port
from gymlab.envs.ports.tabular import Tabular

Rule = Callable[[np.ndarray], np.ndarray]  # observations (N, ...) -> actions
EXPLORING = 0.1  # share of random actions of the competent half
ROUNDING = 1e-4  # of the score range: returns of rewards with decimals are equal up to this
NEEDED = 0.99  # share of equal episodes
TOLERANCE = 0.01  # of the score range, for the interval of the difference of means
# Where an env has chance, episodes are added until half the interval is this share of the score range.
HALF_WIDTH = 0.004
BATCH = 20_000


@dataclass(frozen=True)
class Agreement:
    """The returns of `episodes` on either side."""

    env_id: str
    theirs: np.ndarray
    ours: np.ndarray
    paired: bool

    @property
    def range(self) -> float:
        """From the lowest to the highest return seen on Gymnasium."""
        return float(np.ptp(self.theirs)) or 1.0

    @property
    def equal(self) -> float:
        """The share of episodes with equal returns."""
        exact = bool((self.theirs == np.round(self.theirs)).all())
        return float((abs(self.ours - self.theirs) <= (0 if exact else ROUNDING * self.range)).mean())

    @property
    def half_width(self) -> float:
        low, high = self.interval
        return (high - low) / 2

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the difference of the means, ours less theirs, as a share of the score range."""
        difference = self.ours.mean() - self.theirs.mean()
        n = len(self.ours)
        variance = (self.ours - self.theirs).var() if self.paired else self.ours.var() + self.theirs.var()
        error = 1.96 * np.sqrt(variance / n)
        return float((difference - error) / self.range), float((difference + error) / self.range)

    @property
    def holds(self) -> bool:
        low, high = self.interval
        return (self.paired and self.equal >= NEEDED) or (low >= -TOLERANCE and high <= TOLERANCE)


def measure(env_id: str, episodes: int = 1000, **kwargs: Any) -> Agreement:
    """Play `episodes` of an env on both sides, more where it has chance. `kwargs` are the port's alone."""
    port: Any = find_port(env_id, kwargs, None)
    rule = _rule(env_id, port)
    if isinstance(port, Bandit) or (isinstance(port, Tabular) and port.probability.shape[2] > 1):
        return _measure_means(env_id, port, rule)
    envs = [_gym_env(env_id) for _ in range(episodes)]
    observations = [env.reset(seed=seed)[0] for seed, env in enumerate(envs)]
    first = _port_state(port, envs)
    theirs = _play_gymnasium(envs, np.stack(observations), rule, port.max_episode_steps)
    return Agreement(env_id, theirs, _play_port(port, first, rule, 0), paired=True)


def _measure_means(env_id: str, port: Any, rule: Rule) -> Agreement:
    env = _gym_env(env_id)
    theirs: list[float] = []
    ours: list[np.ndarray] = []
    while True:
        number = len(ours)
        seeds = range(number * BATCH, (number + 1) * BATCH)
        theirs += [_play_alone(env, rule, seed, port.max_episode_steps) for seed in seeds]
        first = port.reset(stream_key(run_key(0), "resets", number), BATCH)
        ours.append(_play_port(port, first, rule, number))
        found = Agreement(env_id, np.array(theirs), np.concatenate(ours), paired=False)
        if found.half_width <= HALF_WIDTH:
            return found


def _gym_env(env_id: str) -> Any:
    """Built without gymnasium.make, which warns of CartPole-v0's age."""
    spec = gymnasium.spec(env_id)
    return gymnasium.envs.registration.load_env_creator(spec.entry_point)(**spec.kwargs)


def _port_state(port: Any, envs: list[Any]) -> Any:
    if isinstance(port, Tabular):
        return jnp.array([env.s for env in envs], jnp.int32)
    columns = np.stack([env.state for env in envs]).astype(np.float32).T
    return type(port.reset(run_key(0), 1))(*map(jnp.asarray, columns))


def _rule(env_id: str, port: Any) -> Rule:
    """A competent rule."""
    if isinstance(port, Tabular):
        best = _best_actions(port)
        return lambda obs: best[obs]
    return {
        "CartPole-v0": lambda obs: (obs @ np.array([0.1, 0.3, 1.0, 0.5]) > 0).astype(np.int64),
        "CartPole-v1": lambda obs: (obs @ np.array([0.1, 0.3, 1.0, 0.5]) > 0).astype(np.int64),
        "Acrobot-v1": lambda obs: np.where(obs[:, 4] > 0, 0, 2),
        "MountainCar-v0": lambda obs: np.where(obs[:, 1] > 0, 2, 0),
        "MountainCarContinuous-v0": lambda obs: np.where(obs[:, 1:] > 0, 1.0, -1.0),
        "Pendulum-v1": _swing_up,
        "Bandit-v0": lambda obs: np.zeros(len(obs), np.int64),
    }[env_id]


def _swing_up(obs: np.ndarray) -> np.ndarray:
    """Pump energy below, balance above."""
    cos, sin, speed = obs.T
    pump = np.sign(speed) * np.where(speed**2 / 2 + 10 * cos < 10, 2.0, -2.0)
    return np.where(cos > 0.8, -10 * sin - 2 * speed, pump)[:, None]


def _best_actions(port: Tabular) -> np.ndarray:
    """Value iteration with a discount of 0.99."""
    value = np.zeros(len(port.probability))
    for _ in range(500):
        backed_up = port.reward + 0.99 * ~port.terminal * value[port.successor]
        actions = (port.probability * backed_up).sum(-1)
        value = actions.max(-1)
    return np.argmax(actions, -1)


class _Actions:
    """The rule with random actions mixed in, drawn alike on both sides."""

    def __init__(self, rule: Rule, n: int, n_actions: int, number: int) -> None:
        """`n_actions` is 0 where they are continuous."""
        self._rule = rule
        self._random = np.random.default_rng([n, number])
        self._n_actions = n_actions
        self._exploring = np.where(np.arange(n) < n // 2, EXPLORING, 1.0)

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        explores = self._random.random(len(obs)) < self._exploring
        drawn = self._random.random(len(obs))
        chosen = self._rule(obs)
        if self._n_actions == 0:
            return np.where(explores[:, None], 2 * drawn[:, None] - 1, chosen).astype(np.float32)
        return np.where(explores, (drawn * self._n_actions).astype(np.int64), chosen)


def _actions(space: Any, rule: Rule, n: int, number: int) -> _Actions:
    continuous = isinstance(space, gymnasium.spaces.Box)
    return _Actions(rule, n, 0 if continuous else int(space.n), number)


def _play_gymnasium(envs: list[Any], obs: np.ndarray, rule: Rule, limit: int) -> np.ndarray:
    """The returns of one episode of each env; all envs are stepped side by side."""
    act = _actions(envs[0].action_space, rule, len(envs), 0)
    total = np.zeros(len(envs))
    alive = np.ones(len(envs), bool)
    obs = obs.copy()
    for _ in range(limit):
        actions = act(obs)
        for i in np.flatnonzero(alive):
            obs[i], reward, terminated, _, _ = envs[i].step(actions[i])
            total[i] += reward
            alive[i] = not terminated
        if not alive.any():
            break
    return total


def _play_alone(env: Any, rule: Rule, seed: int, limit: int) -> float:
    """The return of one episode by the competent rule; every other seed acts at random."""
    obs, _ = env.reset(seed=seed)
    random = np.random.default_rng([seed, 1])  # not the stream of the env, which begins with the same seed
    total = 0.0
    for _ in range(limit):
        explores = seed % 2 or random.random() < EXPLORING
        action = random.integers(env.action_space.n) if explores else rule(np.array([obs]))[0]
        obs, reward, terminated, _, _ = env.step(action)
        total += float(reward)
        if terminated:
            break
    return total


def _play_port(port: Any, state: Any, rule: Rule, number: int) -> np.ndarray:
    """The returns of one episode of each row of `state`; `number` decides the random numbers."""
    step = jax.jit(port.step)
    observe = jax.jit(port.observe)
    n = len(jax.tree.leaves(state)[0])
    act = _actions(port.action_space, rule, n, number)
    key = stream_key(run_key(0), "steps", number)
    total = np.zeros(n)
    alive = np.ones(n, bool)
    for t in range(port.max_episode_steps):
        actions = act(np.asarray(observe(state)))
        state, reward, terminated = step(state, jnp.asarray(actions), jax.random.fold_in(key, t))
        total += np.asarray(reward, np.float64) * alive
        alive &= ~np.asarray(terminated)
        if not alive.any():
            break
    return total


def table(found: list[Agreement]) -> list[str]:
    """A Markdown table."""
    lines = [
        "| env | episodes | Gymnasium | compiled | equal returns | difference of means, % of the score range |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for each in found:
        equal = f"{100 * each.equal:.1f} %" if each.paired else "has chance"
        low, high = each.interval
        lines.append(
            f"| {each.env_id} | {len(each.ours):,} | {each.theirs.mean():.4g} | {each.ours.mean():.4g} | {equal} | "
            f"[{100 * low:+.2f}, {100 * high:+.2f}] |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--envs", nargs="+", default=list(PORTS), choices=list(PORTS))
    options = parser.parse_args()
    print("\n".join(table([measure(env_id, options.episodes) for env_id in options.envs])))


if __name__ == "__main__":
    main()
