"""Rules about what cannot be: numbers that break their bounds, counters that fall, envs that are copies; and speed."""

from __future__ import annotations

import math

from gymlab.alerts.context import Case
from gymlab.alerts.rule import EVERYTHING, Advice, Evidence, Judged, Memory, Row, Rule
from gymlab.metrics.bounds import inside
from gymlab.metrics.catalogue import COUNTERS

SLOW = 0.4  # of the usual speed
RISING = tuple(name for name in COUNTERS if name != "time/progress")  # less is done where a run is given more to do


def _bounds(row: Row, memory: Memory, case: Case) -> Judged | None:
    for name, value in row.metrics.items():
        low, high = case.limits(name)
        if not low <= value <= high and not inside(value, (low, high)):
            text = f"{name} is {value:.6g}, outside {low:.6g} to {high:.6g}"
            return Judged(Evidence(name, text, {"value": value, "low": low, "high": high}))
    return Judged()


def _blame(case: Case, evidence: Evidence) -> Advice:
    of_env = evidence.metric.startswith(("roll/", "env/", "eval/"))
    who = "the env breaks its own spaces or reward range: `gymlab envs check`" if of_env else "please report it"
    return Advice(f"No setting causes this: it is a bug ({who}).")


BOUNDS = Rule(
    "bounds-broken",
    "critical",
    "a metric is outside what is possible",
    "A value lies outside the bounds that spaces, settings and the env's description put on it.",
    (EVERYTHING,),
    _bounds,
    _blame,
    raise_after=1,
    of=1,
    clear_after=5,
)


def _counters(row: Row, memory: Memory, case: Case) -> Judged | None:
    clock = {name: float(value) for name, value in row.clock._asdict().items() if name != "seconds"}
    told = {name: row.metrics[name] for name in RISING if name in row.metrics}
    now = clock | {name: value for name, value in told.items() if math.isfinite(value)}
    fell = sorted(name for name, value in now.items() if value < memory.get(name, -math.inf))
    kept = memory | now
    if not fell:
        return Judged(None, kept)
    name = fell[0]
    text = f"{name} fell from {memory[name]:.6g} to {now[name]:.6g}"
    return Judged(Evidence(name, text, {"before": memory[name], "after": now[name]}), kept)


BACKWARDS = Rule(
    "counter-fell",
    "critical",
    "a counter went backwards",
    "A metric that can only rise has fallen: rows are mixed up or were written twice.",
    (EVERYTHING,),
    _counters,
    lambda case, _: Advice("No setting causes this: it is a bug, please report it."),
    raise_after=1,
    of=1,
    clear_after=5,
)


def _identical(row: Row, memory: Memory, case: Case) -> Judged | None:
    if row.metrics["env/copies"] < 1:
        return Judged()
    text = "envs with different seeds gave the same observations and rewards for the same actions"
    return Judged(Evidence("env/copies", text, {"n_envs": case.number("n_envs") or 0.0}))


IDENTICAL = Rule(
    "identical-envs",
    "warning",
    "the parallel envs are copies of each other",
    "Before the first update envs are reset with different seeds and given the same actions: all gave the same. Only "
    "the policy's own dice make the parallel envs differ.",
    ("env/copies",),
    _identical,
    lambda case, _: Advice(
        "Let `reset(seed=...)` vary the start, or add randomness (env.wrappers: [{sticky_actions: 0.25}], random "
        "no-ops); for a deterministic puzzle this is as it should be: turn it off with alerts.off=[identical-envs]."
    ),
    raise_after=1,
    of=1,
    clear_after=1,
)


def _speed(row: Row, memory: Memory, case: Case) -> Judged | None:
    speed = row.metrics["time/sps"]
    if not speed > 0 or math.isinf(speed):
        return None
    size = math.log(speed)
    seen = memory.get("seen", 0.0)
    if seen < 3:  # the first calls compile
        return Judged(None, {"seen": seen + 1, "usual": size})
    usual = max(memory["usual"], size) if seen < 10 else memory["usual"]
    sick = seen >= 10 and size < usual + math.log(SLOW)
    moved = usual + (0.02 if sick else 0.1) * (size - usual) if seen >= 10 else usual
    text = f"{speed:.3g} steps/s, {speed / math.exp(usual):.0%} of the usual {math.exp(usual):.3g}"
    numbers = {"sps": speed, "usual": math.exp(usual)}
    return Judged(Evidence("time/sps", text, numbers) if sick else None, {"seen": seen + 1, "usual": moved})


SPEED = Rule(
    "speed-drop",
    "info",
    "training has slowed down",
    f"Steps per second are below {SLOW:.0%} of the usual in nine of ten measurements: the machine is busy with "
    "something else, or episodes have become dearer.",
    ("time/sps",),
    _speed,
    lambda case, _: Advice("See what else runs on this machine; sys/rss shows whether memory runs out."),
    raise_after=9,
    of=10,
    clear_after=5,
)


def _outage(row: Row, memory: Memory, case: Case) -> Judged | None:
    down = row.metrics["sys/trackers_down"]
    if not down:
        return Judged()
    return Judged(Evidence("sys/trackers_down", f"{down:.0f} of the trackers cannot be reached", {"down": down}))


OUTAGE = Rule(
    "tracker-outage",
    "warning",
    "a tracker cannot be reached",
    "TensorBoard's folder or the W&B server failed. Training is not affected: the store has every row, and the copy is "
    "caught up once the tracker is back.",
    ("sys/trackers_down",),
    _outage,
    lambda case, _: Advice("See run.log for the reason: the network, the login, or a folder that cannot be written."),
    raise_after=1,
    of=1,
    clear_after=1,
)

RULES = (BOUNDS, BACKWARDS, IDENTICAL, OUTAGE, SPEED)
