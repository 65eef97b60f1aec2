"""Alert rules for impossible values: metrics out of bounds, counters that fall, parallel envs that are copies."""

from __future__ import annotations

import math

from gymlab.alerts.context import RunContext
from gymlab.alerts.engine import EVERYTHING, Advice, AlertRule, Evidence, Judged, JudgedRow, Memory
from gymlab.metrics.bounds import inside
from gymlab.metrics.catalogue import COUNTERS, split_task

RISING = frozenset(COUNTERS) - {"time/progress"}  # progress falls where the budget is extended


def _bounds(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    """The memory holds the metrics seen outside: a row without them, as of most histograms, does not pass."""
    broken = dict(memory)
    found: list[Evidence] = []
    for name, value in row.metrics.items():
        low, high = run.limits(name)
        if low <= value <= high or inside(value, (low, high), name):
            broken.pop(name, None)
            continue
        broken[name] = 1.0
        text = f"{name} is {value:.6g}, outside {low:.6g} to {high:.6g}"
        found.append(Evidence(name, text, {"value": value, "low": low, "high": high}))
    return Judged(found[0] if found else None, broken, counts=bool(found) or not broken)


def _report_bug(run: RunContext, evidence: Evidence) -> Advice:
    if not evidence.metric.startswith(("roll/", "env/", "eval/")):
        return Advice("No setting causes this: it is a bug (please report it).")
    wrappers = " or one of its wrappers" if run.settings.get("env.wrappers") else ""
    return Advice(
        f"No setting causes this: it is a bug (the env{wrappers} breaks its own spaces or reward range: "
        "`gymlab envs check`)."
    )


BOUNDS = AlertRule(
    "bounds-broken",
    "critical",
    "a metric is outside what is possible",
    "A value lies outside the bounds that spaces, settings and the env's description put on it.",
    (EVERYTHING,),
    _bounds,
    _report_bug,
    raise_after=1,
    of=1,
    clear_after=5,
)


def _counters(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    clock = {name: float(value) for name, value in row.clock._asdict().items() if name != "seconds"}
    measured = {name: value for name, value in row.metrics.items() if split_task(name)[0] in RISING}
    now = clock | {name: value for name, value in measured.items() if math.isfinite(value)}
    fell = sorted(name for name, value in now.items() if value < memory.get(name, -math.inf))
    latest = memory | now
    if not fell:
        return Judged(None, latest)
    name = fell[0]
    text = f"{name} fell from {memory[name]:.6g} to {now[name]:.6g}"
    return Judged(Evidence(name, text, {"before": memory[name], "after": now[name]}), latest)


BACKWARDS = AlertRule(
    "counter-fell",
    "critical",
    "a counter went backwards",
    "A metric that can only rise has fallen: rows are mixed up or were written twice.",
    (EVERYTHING,),
    _counters,
    lambda run, _: Advice("No setting causes this: it is a bug, please report it."),
    raise_after=1,
    of=1,
    clear_after=5,
)


def _identical(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    if row.metrics["env/copies"] < 1:
        return Judged()
    text = "envs with different seeds gave the same observations and rewards for the same actions"
    return Judged(Evidence("env/copies", text, {"n_envs": run.number("n_envs") or 0.0}))


IDENTICAL = AlertRule(
    "identical-envs",
    "warning",
    "the parallel envs are copies of each other",
    "Before the first update envs are reset with different seeds and given the same actions: all gave the same. Only "
    "the policy's own dice make the parallel envs differ.",
    ("env/copies",),
    _identical,
    lambda run, _: Advice(
        "Let `reset(seed=...)` vary the start, or add randomness (env.wrappers: [{sticky_actions: 0.25}], random "
        "no-ops); for a deterministic puzzle this is as it should be: turn it off with alerts.off=[identical-envs]."
    ),
    raise_after=1,
    of=1,
    clear_after=1,
)


RULES = (BOUNDS, BACKWARDS, IDENTICAL)
