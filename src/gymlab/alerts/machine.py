"""Alert rules for the machine: training speed and trackers that cannot be reached."""

from __future__ import annotations

import math
import statistics

from gymlab.alerts.context import RunContext
from gymlab.alerts.engine import Advice, AlertRule, Evidence, Judged, JudgedRow, Memory

SLOW = 0.4  # of the usual speed
COMPILING = 3  # first rows: compilation, then calls that return before they are done
LEVEL = 7  # rows after them whose median is the usual speed


def _speed(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    speed = row.metrics["time/sps"]
    if not speed > 0 or math.isinf(speed):
        return None
    size = math.log(speed)
    seen = memory.get("seen", 0.0)
    if seen < COMPILING:
        return Judged(None, {"seen": seen + 1})
    if seen < COMPILING + LEVEL:
        first = {**memory, f"speed/{seen:.0f}": size, "seen": seen + 1}
        if seen + 1 < COMPILING + LEVEL:
            return Judged(None, first)
        speeds = [value for name, value in first.items() if name.startswith("speed/")]
        return Judged(None, {"seen": seen + 1, "usual": statistics.median(speeds)})
    usual = memory["usual"]
    failing = size < usual + math.log(SLOW)
    moved = usual + (0.02 if failing else 0.1) * (size - usual)
    text = f"{speed:.3g} steps/s, {speed / math.exp(usual):.0%} of the usual {math.exp(usual):.3g}"
    numbers = {"sps": speed, "usual": math.exp(usual)}
    return Judged(Evidence("time/sps", text, numbers) if failing else None, {"seen": seen + 1, "usual": moved})


SPEED = AlertRule(
    "speed-drop",
    "info",
    "training has slowed down",
    f"Steps per second are below {SLOW:.0%} of the usual in nine of ten measurements: the machine is busy with "
    "something else, or episodes have become dearer.",
    ("time/sps",),
    _speed,
    lambda run, _: Advice("See what else runs on this machine; sys/rss shows whether memory runs out."),
    raise_after=9,
    of=10,
    clear_after=5,
)


def _outage(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    down = row.metrics["sys/trackers_down"]
    if not down:
        return Judged()
    return Judged(Evidence("sys/trackers_down", f"{down:.0f} of the trackers cannot be reached", {"down": down}))


OUTAGE = AlertRule(
    "tracker-outage",
    "warning",
    "a tracker cannot be reached",
    "TensorBoard's folder or the W&B server failed. Training is not affected: the store has every row, and the copy is "
    "caught up once the tracker is back.",
    ("sys/trackers_down",),
    _outage,
    lambda run, _: Advice("See run.log for the reason: the network, the login, or a folder that cannot be written."),
    raise_after=1,
    of=1,
    clear_after=1,
)

RULES = (OUTAGE, SPEED)
