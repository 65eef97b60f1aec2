"""One episode, step by step: what the policy saw, did and expected, and what came of it.

The CSV beside a checkpoint, the replay page and the inspector all show the rows of this one table.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from gymlab.core.jax_keys import run_key, stream_key
from gymlab.core.types import Array, Decision, Masked, Tree, VecStep
from gymlab.envs.transform import Transform, transformed
from gymlab.media.trace_returns import Judgement, judge
from gymlab.media.trace_values import cell, plain, short
from gymlab.networks.heads import to_env
from gymlab.training.env_state import Act, act_through, apply_transforms, reset_carry

_BATCH = 2  # a batch of one is computed with other roundings than any larger one

_NAN = math.nan

# (policy, obs) -> "value" (N,), "entropy" (N,), "probabilities" (N, n) and so on, as far as they are known
Look = Callable[[Tree, Tree], dict[str, Tree]]


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
    spread: dict[str, Any] = {}  # noqa: RUF012 - what else tells the distribution: mean and std, or each part's choices
    log_prob: float = _NAN  # of the action
    entropy: float = _NAN  # of the distribution, in nats
    raw: Any = None  # the observation as the env gives it; None: no transform changes it
    seen: Any = None  # the observation as the network gets it; None: nothing is normalised
    mask: Any = None  # which actions are legal, where the env says so
    learnt_reward: float = _NAN  # what learning sees: shaped, clipped, normalised
    components: dict[str, float] = {}  # noqa: RUF012 - named parts of the reward, before normalising
    terminated: bool = False  # also where a lost life ends what is learnt from
    truncated: bool = False
    td_error: float = _NAN  # GAE with lambda 0: how much better than expected this one step went


COLUMNS = Row._fields


class Thought(NamedTuple):
    """What else is known of a decision: see the columns of these names."""

    spread: dict[str, Any] = {}  # noqa: RUF012
    log_prob: float = _NAN
    entropy: float = _NAN
    raw: Any = None
    seen: Any = None
    mask: Any = None


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
    thought: Thought = Thought()


class Wanted(NamedTuple):
    """Which episode to play, and how."""

    seed: int
    greedy: bool = True
    max_steps: int = 10**9
    labels: Sequence[str] = ()  # of discrete actions
    stride: int = 1  # a film of it holds every so many steps
    forced: Mapping[int, Any] = {}  # actions by step, as the policy gives them, in place of its own


class Outcome(NamedTuple):
    reward: float
    train_reward: float
    terminated: bool  # also where a lost life ends what is learnt from, but not the env's episode
    truncated: bool
    components: dict[str, float]

    @classmethod
    def of(cls, step: VecStep) -> Outcome:
        parts = {name: float(part[0]) for name, part in step.components.items()}
        ends = bool(step.terminated[0]), bool(step.truncated[0])
        return cls(float(step.reward[0]), float(step.train_reward[0]), *ends, parts)


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
        ) -> tuple[Decision, dict[str, Tree]]:
            carry = reset_carry(carry, fresh, initial_carry(_BATCH))
            return act(policy, obs, carry, jax.random.fold_in(key, t), greedy), look(policy, obs)

        self._choose = choose

    def choose(
        self, policy: Tree, obs: Tree, carry: Tree, fresh: Array, key: Array, t: int, *, greedy: bool
    ) -> tuple[Decision, dict[str, Tree]]:
        """The decision for one env (every array has a leading axis of 1), and the outlook from there."""
        both = jax.tree.map(lambda x: np.repeat(np.asarray(x), _BATCH, 0), (obs, fresh))
        decision, outlook = self._choose(policy, both[0], carry, both[1], key, np.uint32(t), np.full(_BATCH, greedy))
        chosen = np.asarray(decision.action)
        log_prob = np.asarray(decision.log_prob)
        return decision._replace(action=chosen, log_prob=log_prob), jax.tree.map(np.asarray, outlook)


def play(
    engine: Any,
    actor: Actor,
    policy: Tree,
    judged: Judgement,
    wanted: Wanted,
    on_moment: Callable[[Moment], None] = lambda _: None,
) -> Episode:
    """Play the next episode of a host engine with one env."""
    key = stream_key(run_key(wanted.seed), "evaluation")
    space = transformed(engine.spaces, actor.transforms).action
    states = tuple(transform.init(1) for transform in actor.transforms)
    raw = engine.reset()
    states, step = apply_transforms(actor.transforms, states, raw, key)
    carry = actor.first_carry
    total = 0.0
    ended = ""
    moments: list[Moment] = []
    outcomes: list[Outcome] = []
    while not ended:
        t = len(moments)
        decision, outlook = actor.choose(policy, step.obs, carry, step.fresh, key, t, greedy=wanted.greedy)
        if t in wanted.forced:
            decision = _forced(decision, wanted.forced[t], outlook)
        own = stream_key(key, "transforms", t + 1) if any(part.random for part in actor.transforms) else None
        chosen = to_env(space, decision.action[:1])
        thought = _thought(decision, outlook, step.obs, raw.obs if actor.transforms else None)
        moments.append(_moment(t, step.obs, chosen, decision, outlook, wanted.labels, total)._replace(thought=thought))
        on_moment(moments[-1])
        states, sent = act_through(actor.transforms, states, chosen, own)
        raw = engine.step(sent)
        states, step = apply_transforms(actor.transforms, states, raw, own)
        carry = decision.carry
        total = total + float(step.reward[0])
        outcomes.append(Outcome.of(step))
        if step.fresh[0]:
            ended = "terminated" if step.terminated[0] else "truncated"
        elif len(moments) >= wanted.max_steps:
            ended = "cut"
    _, after = actor.choose(policy, step.successor, carry, np.zeros(1, bool), key, len(moments), greedy=wanted.greedy)
    return Episode(_rows(moments, outcomes, _value(after), policy, judged, wanted.stride), ended, wanted.seed)


def _forced(decision: Decision, action: Any, outlook: dict[str, Tree]) -> Decision:
    """Another action; how likely it was is known where actions can be counted."""
    given = np.broadcast_to(np.asarray(action, decision.action.dtype), decision.action.shape)
    log_prob = np.full_like(decision.log_prob, _NAN)
    if "probabilities" in outlook:
        with np.errstate(divide="ignore"):
            log_prob[:] = np.log(outlook["probabilities"][0][int(given[0])])
    return decision._replace(action=given, log_prob=log_prob)


def _first(tree: Tree) -> Tree:
    """Of the first env, a copy, without its mask."""
    return jax.tree.map(lambda x: np.array(x[0]), tree.obs if isinstance(tree, Masked) else tree)


def _same(one: Tree, two: Tree) -> bool:
    """Whether transforms have left an observation as it was."""
    if str(jax.tree.structure(one)) != str(jax.tree.structure(two)):
        return False
    return all(map(np.array_equal, jax.tree.leaves(one), jax.tree.leaves(two)))


def _thought(decision: Decision, outlook: dict[str, Tree], obs: Tree, raw: Tree | None) -> Thought:
    spread: dict[str, Any] = {
        name: plain(_first(outlook[name])) for name in ("mean", "std", "choices") if name in outlook
    }
    return Thought(
        spread,
        float(decision.log_prob[0]),
        float(outlook["entropy"][0]) if "entropy" in outlook else _NAN,
        None if raw is None or _same(raw, obs) else _first(raw),
        _first(outlook["seen"]) if "seen" in outlook else None,
        np.array(obs.mask[0]) if isinstance(obs, Masked) else None,
    )


def _moment(
    t: int, obs: Tree, chosen: Array, decision: Decision, outlook: dict[str, Tree], labels: Sequence[str], total: float
) -> Moment:
    action = np.asarray(chosen[0])  # a choice counts from 0, whatever the env's own does
    choice = decision.action[0]
    probabilities = outlook.get("probabilities")
    return Moment(
        step=t,
        observation=_first(obs),
        action=action,
        label=label_of(choice if choice.ndim == 0 else action, labels),
        probability=float(np.exp(np.float64(decision.log_prob[0]))),
        probabilities=() if probabilities is None else tuple(short(probabilities[0])),
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
    to_go, gae, td = judge(learnt, values, end_value, np.array([o.terminated for o in outcomes]), judged)
    baseline = {"value": values, "none": np.zeros_like(values)}.get(judged.baseline, np.full_like(values, math.nan))
    so_far = np.cumsum([outcome.reward for outcome in outcomes])
    return [
        Row(
            moment.step,
            moment.step // stride,
            moment.observation,
            moment.action,
            moment.label,
            moment.probability,
            outcomes[t].reward,
            float(so_far[t]),
            float(to_go[t]),
            moment.value,
            float(baseline[t]),
            float(to_go[t] - baseline[t]),
            float(gae[t]),
            moment.probabilities,
            *moment.thought,
            float(learnt[t]),
            outcomes[t].components,
            outcomes[t].terminated,
            outcomes[t].truncated,
            float(td[t]),
        )
        for t, moment in enumerate(moments)
    ]


def to_csv(rows: Sequence[Row]) -> str:
    """The table as text, every number exact; structured cells are JSON, unknown ones empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([cell(value) for value in row] for row in rows)
    return out.getvalue()


def as_json(row: Row) -> dict[str, Any]:
    """A row as plain values; what is unknown is null."""
    written = {name: plain(value) for name, value in row._asdict().items()}
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in written.items()}
