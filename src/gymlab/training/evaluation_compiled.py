"""CompiledEvaluator: evaluation on the compiled engine, greedy and sampled episodes in one program.

Its keys are derived from the evaluation seed under names of their own, so they are disjoint from training's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gymlab.core.arrays import reset_carry
from gymlab.core.jax_keys import named_key, named_key_words, wrap_key
from gymlab.core.types import Array, Tree
from gymlab.envs.engines.jax import JaxEngine
from gymlab.envs.ports.port import JaxEnv
from gymlab.envs.transform import Transform, transformed
from gymlab.networks.distributions import to_env_action
from gymlab.training.evaluation import WAYS, Abandon, Abandoned, EvalEpisode, Evaluation, Way, episode_quota, score
from gymlab.training.state import Act, apply_transforms, transform_action

CALL_STEPS = 2000  # of every env in one compiled call; between calls an evaluation may be abandoned


class _Now(NamedTuple):
    """An evaluation between two steps; the first half of the N envs acts greedily, the second samples."""

    env: Tree
    transforms: tuple[Tree, ...]
    obs: Tree
    fresh: Array
    carry: Tree
    total: Array  # (N,) return of the open episode
    length: Array  # (N,)
    done: Array  # (N,) episodes that count so far
    totals: Array  # (N, Q) of the done episodes
    lengths: Array
    truncated: Array


class CompiledEvaluator:
    """Evaluates as `Evaluator` does, with the same quota of episodes per env, on a port of the env."""

    def __init__(
        self,
        env: JaxEnv,
        transforms: tuple[Transform, ...],
        act: Act,
        initial_carry: Callable[[int], Tree],
        *,
        use_action_mask: bool = True,
        device: jax.Device | None = None,
    ) -> None:
        """`device` is where it runs; None: where the policy is."""
        self._engine = partial(JaxEngine, env, use_action_mask=use_action_mask)
        self._transforms = transforms
        self._act = act
        self._initial_carry = initial_carry
        self._device = device
        self._space = transformed(self._engine(1).spaces, transforms).action
        self._compiling = threading.Lock()  # an evaluation waits for `prepare` instead of compiling the same program
        self._first = jax.jit(self._begin_and_play, static_argnums=(0, 1))
        self._more = jax.jit(self._play, static_argnums=(0, 1))  # compiled only for episodes longer than CALL_STEPS

    def prepare(self, policy: Tree, episodes: int, max_envs: int, before_compiling: Callable[[], None]) -> None:
        """Trace the program that `evaluate` needs, and compile it after `before_compiling`."""
        quota, shape = self._quota(episodes, max_envs, WAYS)
        with self._compiling, self._where():
            lowered = self._first.lower(*shape, policy, _step_keys(0, 0), quota, _reset_key(0))
            before_compiling()
            lowered.compile()

    def evaluate(
        self,
        policy: Tree,
        *,
        episodes: int,
        seed: int,
        max_envs: int,
        abandon: Abandon = lambda: False,
        ways: Sequence[Way] = WAYS,
    ) -> Evaluation:
        """Run `episodes` of each way of acting, with keys derived from `seed`."""
        if abandon():
            raise Abandoned
        quota, shape = self._quota(episodes, max_envs, ways)
        with self._compiling:
            pass
        with self._where():
            policy = policy if self._device is None else jax.device_put(policy, self._device)
            now = self._first(*shape, policy, _step_keys(seed, 0), quota, _reset_key(seed))
            calls = 1
            while (np.asarray(now.done) < quota).any():
                if abandon():
                    raise Abandoned
                now = self._more(*shape, policy, _step_keys(seed, calls), quota, now)
                calls += 1
        greedy, sampled = (score(part) for part in _episodes(now, quota))
        return Evaluation(greedy, sampled, seed, "compiled")

    def _quota(self, episodes: int, max_envs: int, ways: Sequence[Way]) -> tuple[np.ndarray, tuple[int, int]]:
        """The episodes of each env, the number of envs, and the most episodes of one."""
        each = episode_quota(episodes, min(episodes, max_envs))
        quota = np.concatenate([each * (way in ways) for way in WAYS]).astype(np.int32)
        return quota, (len(quota), int(each.max()))

    def _where(self) -> AbstractContextManager[Any]:
        return nullcontext() if self._device is None else jax.default_device(self._device)

    def _begin_and_play(
        self, n: int, most: int, policy: Tree, keys: tuple[Array, Array], quota: Array, resets: Array
    ) -> _Now:
        env, step = self._engine(n).init(resets)
        states = tuple(transform.init(n) for transform in self._transforms)
        states, step = apply_transforms(self._transforms, states, step, resets)
        nothing = jnp.zeros((n, most), jnp.float32)
        none = jnp.zeros(n, jnp.int32)
        now = _Now(
            env, states, step.obs, step.fresh, self._initial_carry(n),
            jnp.zeros(n, jnp.float32), none, none, nothing, nothing.astype(jnp.int32), nothing.astype(bool),
        )  # fmt: skip
        return self._play(n, most, policy, keys, quota, now)

    def _play(self, n: int, most: int, policy: Tree, keys: tuple[Array, Array], quota: Array, now: _Now) -> _Now:
        # An env that plays one episode need not be reset: its later steps count for nothing.
        engine = self._engine(n, autoreset=most > 1)
        greedy = jnp.arange(n) < n // 2

        def step(at: tuple[Array, _Now]) -> tuple[Array, _Now]:
            t, now = at
            act_key = wrap_key(keys[0][t])
            env_key = wrap_key(keys[1][t])
            carry = reset_carry(now.carry, now.fresh, self._initial_carry(n))
            decision = self._act(policy, now.obs, carry, act_key, greedy)
            states, action = transform_action(
                self._transforms, now.transforms, to_env_action(self._space, decision.action), env_key
            )
            env, vec = engine.step(now.env, action, env_key)
            states, vec = apply_transforms(self._transforms, states, vec, env_key)
            total = now.total + vec.reward
            length = now.length + 1
            ended = vec.fresh & (now.done < quota)
            slot = ended[:, None] & (jnp.arange(most) == now.done[:, None])
            return t + 1, _Now(
                env,
                states,
                vec.obs,
                vec.fresh,
                decision.carry,
                jnp.where(vec.fresh, 0.0, total),
                jnp.where(vec.fresh, 0, length),
                now.done + ended,
                jnp.where(slot, total[:, None], now.totals),
                jnp.where(slot, length[:, None], now.lengths),
                jnp.where(slot, vec.truncated[:, None], now.truncated),
            )

        def is_open(at: tuple[Array, _Now]) -> Array:
            return (at[1].done < quota).any() & (at[0] < CALL_STEPS)

        return lax.while_loop(is_open, step, (jnp.int32(0), now))[1]


def _reset_key(seed: int) -> Array:
    return named_key(seed, "compiled evaluation: resets")


def _step_keys(seed: int, call: int) -> tuple[Array, Array]:
    """Keys to act and keys for the env, one of each for every step of a call; made on the host, to compile less."""
    first = call * CALL_STEPS
    act, env = (named_key_words(seed, f"compiled evaluation: {name}", first, CALL_STEPS) for name in ("act", "env"))
    return act, env


def _episodes(now: _Now, quota: np.ndarray) -> tuple[list[EvalEpisode], list[EvalEpisode]]:
    """The episodes of both ways of acting, env after env."""
    totals, lengths, truncated = (np.asarray(part).tolist() for part in (now.totals, now.lengths, now.truncated))
    each = [
        [EvalEpisode(*episode) for episode in zip(totals[i], lengths[i], truncated[i], strict=True)][:count]
        for i, count in enumerate(quota)
    ]
    half = len(quota) // 2
    return list(chain(*each[:half])), list(chain(*each[half:]))
