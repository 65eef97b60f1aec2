"""Non-finite updates: a discarded update is re-run with checks on, and the first NaN or infinite tensor is reported."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from gymlab.algorithms.base import ActorCriticAlgorithm, Algorithm, Hyper, Metrics
from gymlab.core.clock import Clock
from gymlab.core.errors import RunError
from gymlab.core.jax_keys import stream_key
from gymlab.core.types import Array, Masked, Rollout, Tree
from gymlab.training.agent import MAX_SKIPPED_IN_A_ROW, Agent
from gymlab.training.named_tensors import to_tensors
from gymlab.training.state import TrainState

if TYPE_CHECKING:
    from gymlab.training.trainer import Advanced


Place = Literal["observation", "reward", "action", "logits", "advantage", "loss", "gradient", "parameter", "state"]


class BadUpdate(NamedTuple):
    """A non-finite update, with all that is needed to re-run it."""

    clock: Clock  # before it
    state: TrainState  # before it
    rollouts: tuple[Rollout, ...]  # what it learnt from
    hp: Hyper
    after: TrainState  # as it came out; never kept

    @property
    def update(self) -> int:
        """Its number, from 0."""
        return self.clock.updates

    @property
    def vec_steps(self) -> int:
        """Where the run would have been after it."""
        return self.clock.vec_steps + len(self.rollouts[0].reward)

    @property
    def env_steps(self) -> int:
        return self.clock.env_steps + sum(rollout.reward.size for rollout in self.rollouts)


class NonfiniteTensor(NamedTuple):
    """One tensor that is not finite."""

    place: Place
    tensor: str
    value: str  # NaN, inf or -inf
    env: int | None = None
    step: int | None = None  # env step of the rollout, from 1, that it belongs to; 0: the rollout began with it
    gradient_step: int | None = None  # from 1; 0: before the first

    def __str__(self) -> str:
        name = {"gradient": f"gradient of {self.tensor}", "parameter": f"parameter {self.tensor}"}.get(
            self.place, self.place if self.place == self.tensor else f"{self.place} ({self.tensor})"
        )
        return f"{name} is {self.value}{self._where()}"

    def _where(self) -> str:
        if self.env is not None:
            at = f"at step {self.step} of the rollout" if self.step else "where the rollout began"
            return f" in env {self.env} {at}"
        if self.gradient_step is not None:
            after = "after" if self.place == "parameter" else "at"
            return f" {after} gradient step {self.gradient_step}" if self.gradient_step else " before the update"
        return " after the update"


class NumericalFault(RunError):
    """A non-finite update was discarded. `good` holds the updates of the same call before it."""

    def __init__(self, bad: BadUpdate, good: Advanced, findings: list[NonfiniteTensor]) -> None:
        self.bad = bad
        self.good = good
        self.findings = findings
        message = f"numbers went bad in update {bad.update + 1} ({bad.env_steps} env_steps): {self.describe()}"
        super().__init__(message + self._why_not_skipped())

    def describe(self) -> str:
        """The first non-finite tensor of each kind, in order of appearance."""
        if not self.findings:
            return "made again, the same update is sound: suspect the hardware or a computation that varies"
        kinds: dict[str, str] = {}  # one of each kind; the fault bundle has all
        for finding in self.findings:
            kinds.setdefault(finding.place, str(finding))
        return "; then ".join(kinds.values())

    def _why_not_skipped(self) -> str:
        skipped = self.bad.state.skipped
        if skipped is None:
            return ""
        before = int(skipped.in_a_row)
        why = (
            f"{before} in a row were" if before + 1 >= MAX_SKIPPED_IN_A_ROW else "there is nothing sound to go on from"
        )
        return f"; not skipped, for {why}"


def find_nonfinite(agent: Agent, bad: BadUpdate) -> list[NonfiniteTensor]:
    """Re-run an update and list its non-finite tensors, in order of appearance, each once."""
    state = bad.state
    found = [
        NonfiniteTensor("parameter", *named, gradient_step=0) for named in _bad_tensors(agent.policy(state).weights)
    ]
    found += [NonfiniteTensor("state", *named, gradient_step=0) for named in _bad_tensors(state.normaliser)]
    found += nonfinite_in_rollouts(bad.rollouts)
    if found:  # all results of non-finite input are non-finite
        return _first_of_each(found)
    normalized = jax.jit(agent.normalize)(state, bad.rollouts)
    found = nonfinite_in_rollouts(normalized, "normalised ") or _in_advantages(agent, bad, normalized)
    key = stream_key(state.key, "update", cast("Array", np.uint32(bad.update)))
    found += trace_update(agent.algorithm, state.algorithm, normalized, bad.hp, key)
    found += [NonfiniteTensor("parameter", *named) for named in _bad_tensors(agent.policy(bad.after).weights)]
    found += [NonfiniteTensor("state", *named) for named in _bad_tensors(bad.after.normaliser)]
    return _first_of_each(found)


def _first_of_each(found: list[NonfiniteTensor]) -> list[NonfiniteTensor]:
    kept: dict[tuple[str, str], NonfiniteTensor] = {}
    for finding in found:
        kept.setdefault((finding.place, finding.tensor), finding)
    return list(kept.values())


def nonfinite_in_rollouts(rollouts: tuple[Rollout, ...], prefix: str = "") -> list[NonfiniteTensor]:
    """Non-finite values in rollouts, in order of time: per step the action, then the observation, then the reward."""
    found: list[tuple[tuple[int, int], NonfiniteTensor]] = []
    for group, rollout in enumerate(rollouts):
        label = f"group {group} " if len(rollouts) > 1 else ""
        obs = jax.tree.map(lambda x, last: np.concatenate([x, np.asarray(last)[None]]), rollout.obs, rollout.last_obs)
        parts: list[tuple[Place, Tree, int, int]] = [
            ("action", {"action": rollout.action}, 1, 0),
            ("logits", {"log_prob": rollout.log_prob}, 1, 0),
            ("observation", {"obs": _plain_obs(obs)}, 0, 1),
            ("observation", {"obs": _plain_obs(rollout.successor)}, 1, 1),
            ("reward", {"reward": rollout.reward}, 1, 2),
            ("reward", {"train_reward": rollout.train_reward, "components": rollout.components}, 1, 2),
        ]
        for place, tree, offset, order in parts:
            for name, array in to_tensors(tree).items():
                if (first := _first_bad(array)) is not None:
                    t, env, value = first
                    finding = NonfiniteTensor(place, f"{label}{prefix}{name}", value, env=env, step=t + offset)
                    found.append(((t + offset, order), finding))
    return [finding for _, finding in sorted(found, key=lambda pair: pair[0])]


def _plain_obs(obs: Tree) -> Tree:
    return obs.obs if isinstance(obs, Masked) else obs


def _first_bad(array: np.ndarray) -> tuple[int, int, str] | None:
    """Step, env and value of the first non-finite number of a (T, N, ...) array."""
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return None
    rows = array.reshape(*array.shape[:2], -1)
    t, env, column = np.argwhere(~np.isfinite(rows))[0].tolist()
    return t, env, format_nonfinite(rows[t, env, column])


def _bad_tensors(tree: Tree) -> list[tuple[str, str]]:
    """Name and first bad value of every float tensor that is not finite."""
    tensors = {name: array for name, array in to_tensors(tree).items() if array.dtype.kind == "f"}
    return [
        (name, format_nonfinite(array[~np.isfinite(array)][0]))
        for name, array in tensors.items()
        if not np.isfinite(array).all()
    ]


def _in_advantages(agent: Agent, bad: BadUpdate, rollouts: tuple[Rollout, ...]) -> list[NonfiniteTensor]:
    """Advantages are estimated backwards in time, so the cause is the last non-finite step."""
    algorithm = agent.algorithm
    hp = bad.hp
    if not isinstance(algorithm, ActorCriticAlgorithm) or "gae_lambda" not in hp:
        return []

    @jax.jit
    def estimate(weights: Tree, rollout: Rollout) -> Array:
        batch = algorithm.gae_batch(weights, (rollout,), hp)
        return batch.advantage.reshape(rollout.reward.shape)

    found = []
    for rollout in rollouts:
        first = _first_bad(
            np.asarray(estimate(agent.policy(bad.state).weights, jax.tree.map(jnp.asarray, rollout)))[::-1]
        )
        if first is not None:
            t, env, value = first
            found.append(NonfiniteTensor("advantage", "advantage", value, env=env, step=len(rollout.reward) - t))
    return found


log = logging.getLogger(__name__)


def trace_update(
    algorithm: Algorithm, state: Tree, rollouts: tuple[Rollout, ...], hp: Hyper, key: Array
) -> list[NonfiniteTensor]:
    """Re-run an update with every gradient step checked; [] where the algorithm has no `loss` to probe."""
    if not hasattr(algorithm, "loss"):
        return []
    probed: Any = copy.copy(algorithm)
    probe = _LossProbe(probed, probed.loss)
    probed.loss = probe.loss
    try:
        jax.block_until_ready(jax.jit(probed.update)(state, rollouts, hp, key))
        jax.effects_barrier()
    except Exception as error:  # any failure here must not hide the fault that is being examined
        log.warning("the gradient steps could not be traced: %s: %s", type(error).__name__, error)
    return probe.found


class _LossProbe:
    """Replaces an algorithm's loss, and checks its inputs, its outputs and its gradient."""

    def __init__(self, algorithm: Any, loss: Callable[..., tuple[Array, Metrics]]) -> None:
        self._algorithm = algorithm
        self._loss = loss
        self._step = 0
        self.found: list[NonfiniteTensor] = []

    def loss(self, params: Tree, batch: Tree, *rest: Any, **more: Any) -> tuple[Array, Metrics]:
        self._report("parameter", params)
        self._report("batch", batch)
        if isinstance(self._algorithm, ActorCriticAlgorithm) and hasattr(batch, "obs"):
            distribution, value, _ = self._algorithm.replay(params, batch)
            self._report("logits", {"policy": distribution, "value": value})
        loss, metrics = self._loss(self._with_gradient(params), batch, *rest, **more)
        parts = {name.removeprefix("opt/"): value for name, value in metrics.items() if name.endswith("_loss")}
        self._report("loss", parts)
        self._report("loss", {"loss": loss})
        return loss, metrics

    def _with_gradient(self, params: Tree) -> Tree:
        """The parameters, through an identity whose backward pass checks their gradient."""

        @jax.custom_vjp
        def same(params: Tree) -> Tree:
            return params

        def backward(_: None, gradient: Tree) -> tuple[Tree]:
            self._report("gradient", gradient)
            return (gradient,)

        same.defvjp(lambda params: (params, None), backward)
        return same(params)

    def _report(self, place: str, tree: Tree) -> None:
        leaves = jax.tree_util.tree_flatten_with_path(jax.lax.stop_gradient(tree))[0]
        floats = [(_name(path), leaf) for path, leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating)]
        note = partial(self._note, place, [name for name, _ in floats])
        jax.debug.callback(note, [leaf for _, leaf in floats], ordered=True)

    def _note(self, place: str, names: list[str], arrays: list[Array]) -> None:
        self._step += place == "parameter"  # reported first in every gradient step
        known = {(finding.place, finding.tensor) for finding in self.found}
        for name, array in zip(names, map(np.asarray, arrays), strict=True):
            label, step = _label(place, name, self._step)
            if not np.isfinite(array).all() and (label, name) not in known:
                value = format_nonfinite(array[~np.isfinite(array)][0])
                self.found.append(NonfiniteTensor(label, name, value, gradient_step=step))


def format_nonfinite(value: Array) -> str:
    """NaN, inf or -inf."""
    return "NaN" if np.isnan(value) else f"{value:g}"


def _label(place: str, name: str, step: int) -> tuple[Place, int]:
    """The place and gradient step that a reported tensor belongs to."""
    if place == "batch":
        parts: dict[str, Place] = {"obs": "observation", "action": "action", "log_prob": "logits"}
        return parts.get(name.partition("/")[0], "advantage"), step
    # A parameter that comes in bad was made so by the step before.
    return cast("Place", place), step - (place == "parameter")


def _name(path: Tree) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")
