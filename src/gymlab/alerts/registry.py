"""Registry of alert rules: the general ones and those of each algorithm."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import cast

from gymlab.alerts import impossible_values, initial_policy, inputs, machine, network, policy, returns, value
from gymlab.alerts.context import RunContext
from gymlab.alerts.custom import parse_rules
from gymlab.alerts.engine import Advice, AlertRule, Evidence, Judged, JudgedRow, Memory
from gymlab.alerts.overrides import advice, changed
from gymlab.core.errors import suggestion
from gymlab.core.types import Json, JsonObject
from gymlab.metrics.bounds import Context


def _stale(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    share = row.metrics["roll/stale_fraction"]
    if math.isnan(share) or row.metrics["roll/used_transitions"] == 0:
        return None
    return Judged(
        Evidence(
            "roll/stale_fraction",
            f"{share:.0%} of the transitions used were chosen by an older policy",
            {"share": share},
        )
        if share > 0.8
        else None
    )


def _longer_rollouts(run: RunContext, evidence: Evidence) -> Advice:
    limit = run.context.max_episode_steps
    steps = run.number("n_steps") or 0
    return advice(
        "Rollouts as long as an episode are all of one policy.",
        changed(run, "n_steps", int(min(limit, 4 * steps))) if limit and steps and limit > steps else {},
    )


STALE = AlertRule(
    "stale-transitions",
    "info",
    "most of what is learnt from is old",
    "Episodes span so many rollouts that four in five transitions were chosen by an older policy: the gradient is of "
    "a policy that no longer is.",
    ("roll/stale_fraction", "roll/used_transitions"),
    _stale,
    _longer_rollouts,
    raise_after=8,
    of=10,
    after=0.1,
)

GENERAL: tuple[AlertRule, ...] = (
    *initial_policy.RULES,
    *inputs.RULES,
    policy.ACTIONS_CLIPPED,
    policy.ENTROPY_COLLAPSE,
    policy.ENTROPY_STUCK,
    *value.RULES,
    *network.RULES,
    *returns.RULES,
    *impossible_values.RULES,
    *machine.RULES,
)
_ONE_STEP = (policy.kl_high("opt/kl"), policy.kl_low("opt/kl", 1e-7))
OF_ALGORITHM: dict[str, tuple[AlertRule, ...]] = {
    "ppo": (
        policy.kl_high("opt/approx_kl"),
        policy.kl_low("opt/approx_kl", 1e-5),
        policy.CLIP_FRACTION_HIGH,
        policy.KL_STOPS,
    ),
    "a2c": _ONE_STEP,
    "reinforce": (*_ONE_STEP, STALE),
}


def rules_for(
    algorithms: Iterable[str], custom: Sequence[AlertRule] = (), off: Sequence[str] = ()
) -> tuple[AlertRule, ...]:
    """The rules of a run, by id: general ones, those of the first known algorithm, the user's `custom` ones.

    `algorithms` are an algorithm's name and the names of those it extends. A custom rule replaces one with its id.
    """
    named = next((OF_ALGORITHM[name] for name in algorithms if name in OF_ALGORITHM), ())
    found = {rule.id: rule for rule in (*GENERAL, *named, *custom)}
    return tuple(rule for name, rule in sorted(found.items()) if name not in off)


def rules_from_settings(settings: JsonObject, algorithms: Iterable[str] | None = None) -> tuple[AlertRule, ...]:
    """The rules of a run from its flat settings; a user's algorithm has the general ones."""
    custom = [rule.rule() for rule in parse_rules(settings.get("alerts.rules") or [])]
    off = [str(name) for name in cast("Sequence[Json]", settings.get("alerts.off") or [])]
    return rules_for(
        [RunContext(Context(settings=settings)).algorithm] if algorithms is None else algorithms, custom, off
    )


def check_off(off: Iterable[str], custom: Iterable[str]) -> None:
    """Raises ValueError for an id in `off` that is neither a shipped nor a custom rule."""
    everything = [*names(), *custom]
    for name in off:
        if name not in everything:
            raise ValueError(f"unknown alert '{name}': {suggestion(name, everything)}")


def all_rules() -> list[tuple[AlertRule, tuple[str, ...]]]:
    """Every built-in rule, by id, with its algorithms: () where it is for all."""
    found: dict[str, tuple[AlertRule, tuple[str, ...]]] = {rule.id: (rule, ()) for rule in GENERAL}
    for algorithm, rules in OF_ALGORITHM.items():
        for rule in rules:
            known, others = found.get(rule.id, (rule, ()))
            found[rule.id] = known, (*others, algorithm)
    return [found[name] for name in sorted(found)]


def names() -> list[str]:
    """The ids of all built-in rules."""
    return [rule.id for rule, _ in all_rules()]
