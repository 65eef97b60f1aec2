"""One episode, step by step: what the policy saw, did and expected, and what came of it.

The CSV beside a checkpoint, the replay page and the inspector all show the rows of this one table.
"""

from __future__ import annotations

import csv
import io
import json
import math
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from gymlab import returns
from gymlab.core.keys import run_key, stream_key
from gymlab.core.types import Array, Decision, Masked, Tree
from gymlab.envs.wrappers.transform import Transform, transformed
from gymlab.policies.heads import to_env
from gymlab.rollout.state import Act, act_through, apply_transforms, reset_carry

_MOST_NUMBERS = 64  # of an observation; a larger one is named by its shape and checksum
_BATCH = 2  # a batch of one is computed with other roundings than any larger one

Look = Callable[[Tree, Tree], dict[str, Array]]  # (policy, obs) -> "value" (N,) and "probabilities" (N, n), if any


class Row(NamedTuple):
    """One step. Floats are NaN where there is nothing to tell."""

    step: int
    frame: int  # of the film, that shows what was acted on
    observation: Any  # as the policy gets it, before normalising
    action: Any  # as the env gets it
    label: str
    probability: float  # of the action; its density where actions are continuous
    reward: float  # the env's own
    return_so_far: float  # the env's own rewards, this one included
    return_to_go: float  # discounted, of what learning sees; a cut episode ends with the value of its successor
    value: float
    baseline: float  # what the algorithm compares a return with
    advantage: float  # return_to_go - baseline
    gae: float
    probabilities: tuple[float, ...]  # of every action, where they can be counted


COLUMNS = Row._fields


class Moment(NamedTuple):
    """A decision before it is carried out."""

    step: int
    observation: Tree
    action: Array
    label: str
    probability: float
    probabilities: tuple[float, ...]
    value: float
    return_so_far: float  # before this step


class Judgement(NamedTuple):
    """How an algorithm judges a return."""

    gamma: float
    lam: float
    baseline: str = "value"  # "none": nothing is subtracted; anything else: not known from the policy alone
    learnt: Callable[[Tree, Array], Array] = lambda _, reward: reward  # (policy, rewards) -> rewards as learning sees


class Wanted(NamedTuple):
    """Which episode to play, and how."""

    seed: int
    greedy: bool = True
    max_steps: int = 10**9
    labels: Sequence[str] = ()  # of discrete actions
    stride: int = 1  # a film of it holds every so many steps


class Outcome(NamedTuple):
    reward: float
    train_reward: float
    terminated: bool  # also where a lost life ends what is learnt from, but not the env's episode


class Episode(NamedTuple):
    rows: list[Row]
    ended: str  # terminated, truncated, or cut where it was not watched to its end
    seed: int

    @property
    def total(self) -> float:
        return self.rows[-1].return_so_far if self.rows else 0.0


class Actor:
    """A policy's forward pass, compiled once: what to do in a state, and what to think of it."""

    def __init__(
        self, act: Act, look: Look, initial_carry: Callable[[int], Tree], transforms: tuple[Transform, ...] = ()
    ) -> None:
        self.transforms = transforms
        self.first_carry = initial_carry(_BATCH)

        @jax.jit
        def choose(
            policy: Tree, obs: Tree, carry: Tree, fresh: Array, key: Array, t: Array, greedy: Array
        ) -> tuple[Decision, dict[str, Array]]:
            carry = reset_carry(carry, fresh, initial_carry(_BATCH))
            return act(policy, obs, carry, jax.random.fold_in(key, t), greedy), look(policy, obs)

        self._choose = choose

    def choose(
        self, policy: Tree, obs: Tree, carry: Tree, fresh: Array, key: Array, t: int, *, greedy: bool
    ) -> tuple[Decision, dict[str, Array]]:
        """The decision for one env (every array has a leading axis of 1), and the outlook from there."""
        both = jax.tree.map(lambda x: np.repeat(np.asarray(x), _BATCH, 0), (obs, fresh))
        decision, outlook = self._choose(policy, both[0], carry, both[1], key, np.uint32(t), np.full(_BATCH, greedy))
        chosen, log_prob = np.asarray(decision.action), np.asarray(decision.log_prob)
        return decision._replace(action=chosen, log_prob=log_prob), {k: np.asarray(v) for k, v in outlook.items()}


def play(
    engine: Any,
    actor: Actor,
    policy: Tree,
    judged: Judgement,
    wanted: Wanted,
    on_moment: Callable[[Moment], None] = lambda _: None,
) -> Episode:
    """Play the next episode of a host engine with one env."""
    key, space = stream_key(run_key(wanted.seed), "evaluation"), transformed(engine.spaces, actor.transforms).action
    states = tuple(transform.init(1) for transform in actor.transforms)
    states, step = apply_transforms(actor.transforms, states, engine.reset(), key)
    carry, total, ended = actor.first_carry, 0.0, ""
    moments: list[Moment] = []
    outcomes: list[Outcome] = []
    while not ended:
        t = len(moments)
        decision, outlook = actor.choose(policy, step.obs, carry, step.fresh, key, t, greedy=wanted.greedy)
        own = stream_key(key, "transforms", t + 1) if any(part.random for part in actor.transforms) else None
        chosen = to_env(space, decision.action[:1])
        moments.append(_moment(t, step.obs, chosen, decision, outlook, wanted.labels, total))
        on_moment(moments[-1])
        states, sent = act_through(actor.transforms, states, chosen, own)
        states, step = apply_transforms(actor.transforms, states, engine.step(sent), own)
        carry, total = decision.carry, total + float(step.reward[0])
        outcomes.append(Outcome(float(step.reward[0]), float(step.train_reward[0]), bool(step.terminated[0])))
        if step.fresh[0]:
            ended = "terminated" if step.terminated[0] else "truncated"
        elif len(moments) >= wanted.max_steps:
            ended = "cut"
    _, after = actor.choose(policy, step.successor, carry, np.zeros(1, bool), key, len(moments), greedy=wanted.greedy)
    return Episode(_rows(moments, outcomes, _value(after), policy, judged, wanted.stride), ended, wanted.seed)


def _moment(
    t: int, obs: Tree, chosen: Array, decision: Decision, outlook: dict[str, Array], labels: Sequence[str], total: float
) -> Moment:
    action, choice = np.asarray(chosen[0]), decision.action[0]  # a choice counts from 0, whatever the env's own does
    probabilities = outlook.get("probabilities")
    return Moment(
        step=t,
        observation=jax.tree.map(lambda x: np.array(x[0]), obs.obs if isinstance(obs, Masked) else obs),
        action=action,
        label=label_of(choice if choice.ndim == 0 else action, labels),
        probability=float(np.exp(np.float64(decision.log_prob[0]))),
        probabilities=() if probabilities is None else tuple(_short(probabilities[0])),
        value=_value(outlook),
        return_so_far=total,
    )


def label_of(choice: Array, labels: Sequence[str]) -> str:
    """The name of a discrete choice (counted from 0); numbers for any other action."""
    if choice.ndim == 0 and choice.dtype.kind in "iu":
        return labels[int(choice)] if int(choice) < len(labels) else str(int(choice))
    return " ".join(f"{number:.3g}" for number in choice.ravel())


def _value(outlook: dict[str, Array]) -> float:
    return float(outlook["value"][0]) if "value" in outlook else math.nan


def _rows(
    moments: list[Moment], outcomes: list[Outcome], end_value: float, policy: Tree, judged: Judgement, stride: int
) -> list[Row]:
    values = np.array([moment.value for moment in moments], np.float32)
    learnt = np.asarray(judged.learnt(policy, np.array([o.train_reward for o in outcomes], np.float32)))
    to_go, gae = _judge(learnt, values, end_value, np.array([o.terminated for o in outcomes]), judged)
    baseline = {"value": values, "none": np.zeros_like(values)}.get(judged.baseline, np.full_like(values, math.nan))
    so_far = np.cumsum([outcome.reward for outcome in outcomes])
    return [
        Row(
            moment.step, moment.step // stride, moment.observation, moment.action, moment.label, moment.probability,
            outcomes[t].reward, float(so_far[t]), float(to_go[t]), moment.value, float(baseline[t]),
            float(to_go[t] - baseline[t]), float(gae[t]), moment.probabilities,
        )
        for t, moment in enumerate(moments)
    ]  # fmt: skip


def _judge(
    rewards: np.ndarray, values: np.ndarray, end_value: float, terminated: np.ndarray, judged: Judgement
) -> tuple[np.ndarray, np.ndarray]:
    """Discounted returns and GAE of one whole episode, by the code that training uses."""
    n, padded = len(rewards), 1 << max(6, (len(rewards) - 1).bit_length())  # few lengths, few compilations

    def column(x: np.ndarray) -> np.ndarray:
        return np.pad(x, (0, padded - n))[:, None]

    following = np.append(values[1:], np.float32(end_value))
    died, stopped = column(terminated), column((np.arange(n) == n - 1) & ~terminated)
    known = np.nan_to_num(following)  # without a value function a cut episode ends with 0
    to_go, gae = _compiled(*map(column, (rewards, known, values, following)), died, stopped, judged.gamma, judged.lam)
    return np.asarray(to_go)[:n, 0], np.asarray(gae)[:n, 0]


@jax.jit
def _compiled(
    rewards: Array, known: Array, values: Array, following: Array, died: Array, stopped: Array, *rates: Array
) -> tuple[Array, Array]:
    gamma, lam = rates
    to_go = returns.monte_carlo(rewards, known, died, stopped, gamma=gamma)
    return to_go, returns.gae(rewards, values, following, died, stopped, gamma=gamma, lam=lam)


def to_csv(rows: Sequence[Row]) -> str:
    """The table as text, every number exact; structured cells are JSON, unknown ones empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def as_json(row: Row) -> dict[str, Any]:
    """A row as plain values; what is unknown is null."""
    plain = {name: _plain(value) for name, value in row._asdict().items()}
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in plain.items()}


def _cell(value: Any) -> Any:
    if isinstance(value, int | str):
        return value
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(value)
    plain = _plain(value)
    return plain if isinstance(plain, str) else json.dumps(plain)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    if not isinstance(value, np.ndarray):
        return value
    if value.size > _MOST_NUMBERS:
        shape = ",".join(map(str, value.shape))
        return f"{value.dtype}[{shape}] {zlib.crc32(value.tobytes()):08x}"
    return np.array(_short(value), object).reshape(value.shape).tolist()


def _short(array: np.ndarray) -> list[Any]:
    """Numbers as the shortest text that reads back to the same, in their own precision."""
    flat = array.ravel()
    return [float(str(x)) for x in flat] if flat.dtype.kind == "f" else flat.tolist()
