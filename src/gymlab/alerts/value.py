"""Alert rules for the value net, its targets and the learning rate."""

from __future__ import annotations

import math

from gymlab.alerts.context import RunContext
from gymlab.alerts.engine import Advice, AlertRule, Evidence, Judged, JudgedRow, Memory
from gymlab.alerts.overrides import advice, changed, lower_rate

WORSE_THAN_CONSTANT = -0.3
NO_BETTER = 0.02
MATTERS = 0.01  # of the largest value loss: below it targets hardly vary and what is explained of that is noise
EXPLODED = 100.0  # times the level of the first tenth
RESTED = 0.2
SCALES = (1e-3, 1000.0)
ADVANTAGES = (1e-3, 50.0)


def _variance(row: JudgedRow, memory: Memory) -> tuple[float, Memory] | None:
    explained = row.metrics["opt/explained_variance"]
    loss = row.metrics["opt/value_loss"]
    spread = row.metrics.get("opt/target_std", 1.0)
    centre = row.metrics.get("opt/target_mean", 0.0)
    nothing = row.metrics.get("roll/reward_nonzero") == 0 or spread < 1e-3 * abs(centre)  # there is to explain
    if math.isnan(explained) or math.isnan(loss) or nothing:
        return None
    most = max(memory.get("most", 0.0), loss) if math.isfinite(loss) else memory.get("most", 0.0)
    return (explained if loss > MATTERS * most else math.nan), {"most": most}


def _negative(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    found = _variance(row, memory)
    if found is None:
        return None
    explained, memory = found
    failing = explained < WORSE_THAN_CONSTANT
    return Judged(
        Evidence(
            "opt/explained_variance",
            f"explained variance {explained:.2f}: predicting the mean return would be better",
            {"explained_variance": explained},
        )
        if failing
        else None,
        memory,
    )


def _better_value(run: RunContext, evidence: Evidence) -> Advice:
    high = (run.number("learning_rate") or 0.0) > 5e-3
    weak = (run.number("value_coef") or 0.5) < 0.1
    scaled = {} if run.settings.get("normalize.reward") else changed(run, "normalize.reward", True)
    if weak:
        return advice("The value net hardly learns: its loss needs a weight.", changed(run, "value_coef", 0.5))
    return advice(
        "The value net misleads the policy: a lower learning_rate, or rewards of ordinary size.",
        lower_rate(run, 0.3) if high or not scaled else {},
        scaled if not high else {},
    )


NEGATIVE = AlertRule(
    "explained-variance-negative",
    "warning",
    "value predictions are worse than a constant",
    f"Explained variance below {WORSE_THAN_CONSTANT:g} in most of ten updates after a tenth of the budget: the "
    "advantages that the policy follows are noise. Updates whose value loss is negligible do not count.",
    ("opt/explained_variance", "opt/value_loss"),
    _negative,
    _better_value,
    raise_after=7,
    of=10,
    clear_after=5,
    after=0.1,
)


def _none(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    found = _variance(row, memory)
    if found is None:
        return None
    explained, memory = found
    if run.reached(row.metrics["roll/return_mean"]):
        return Judged(None, memory)
    failing = abs(explained) < NO_BETTER
    return Judged(
        Evidence(
            "opt/explained_variance",
            f"explained variance {explained:.3f}: the value net knows nothing that a constant does not",
            {"explained_variance": explained},
        )
        if failing
        else None,
        memory,
    )


NONE = AlertRule(
    "explained-variance-low",
    "info",
    "value predictions explain nothing",
    f"Explained variance within {NO_BETTER:g} of 0 for ten updates, a fifth into the budget. Usual while no reward is "
    "found; else the value net lacks weight, capacity or information.",
    ("opt/explained_variance", "opt/value_loss", "roll/return_mean"),
    _none,
    _better_value,
    raise_after=9,
    of=10,
    clear_after=5,
    after=RESTED,
)


def _exploding(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    loss = row.metrics["opt/value_loss"]
    if math.isnan(loss):
        return None
    level = memory.get("level", 0.0)
    if row.progress < 0.1 or not level:
        return Judged(None, {"level": max(level, min(loss, 1e300))})
    failing = loss > EXPLODED * level and loss > 1.0
    return Judged(
        Evidence(
            "opt/value_loss",
            f"value loss {loss:.3g}, {loss / level:.3g} times the highest of the first tenth ({level:.3g})",
            {"value_loss": loss, "level": level},
        )
        if failing
        else None,
        memory,
    )


def _calm_value(run: RunContext, evidence: Evidence) -> Advice:
    scaled = {} if run.settings.get("normalize.reward") else changed(run, "normalize.reward", True)
    return advice(
        "The value net chases targets that run away: normalise rewards, or lower learning_rate or gamma.",
        scaled or lower_rate(run, 0.3),
    )


EXPLODING = AlertRule(
    "value-loss-exploding",
    "critical",
    "the value loss explodes",
    f"The value loss is more than {EXPLODED:g} times its highest value in the first tenth of the budget, and above 1.",
    ("opt/value_loss",),
    _exploding,
    _calm_value,
    raise_after=3,
    of=5,
    clear_after=10,
    after=0.1,
)


def _reward_scale(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    spread = row.metrics["opt/target_std"]
    if run.settings.get("normalize.reward") or math.isnan(spread) or spread == 0:
        return None
    low, high = SCALES
    # Once every episode is alike the targets hardly vary, whatever their size.
    failing = spread > high or max(spread, abs(row.metrics["opt/target_mean"])) < low
    return Judged(
        Evidence(
            "opt/target_std",
            f"what the value net is fitted to has std {spread:.3g}; nets and step sizes are made for about 1",
            {"target_std": spread},
        )
        if failing
        else None
    )


REWARD_SCALE = AlertRule(
    "reward-scale",
    "warning",
    "rewards are far from ordinary size",
    f"Without normalize.reward the value targets have a std above {SCALES[1]:g}, or are all below {SCALES[0]:g}: the "
    "value loss drowns everything else, or teaches nothing.",
    ("opt/target_std", "opt/target_mean"),
    _reward_scale,
    lambda run, _: advice("Scale rewards by their running std.", changed(run, "normalize.reward", True)),
    raise_after=5,
    of=5,
    after=0.05,
)


def _advantages(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    spread = row.metrics["opt/advantage_std"]
    if math.isnan(spread) or spread == 0 or run.written("normalize_advantage") is not False:
        return None
    low, high = ADVANTAGES
    failing = not low <= spread <= high and not run.reached(row.metrics["roll/return_mean"])
    return Judged(
        Evidence(
            "opt/advantage_std",
            f"advantages have std {spread:.3g} and are not normalised: gradients scale with it",
            {"advantage_std": spread},
        )
        if failing
        else None
    )


ADVANTAGE_SCALE = AlertRule(
    "advantage-scale",
    "warning",
    "advantages are far from ordinary size",
    f"Without normalize_advantage the policy gradient grows with the advantages, whose std is outside "
    f"{ADVANTAGES[0]:g} to {ADVANTAGES[1]:g}.",
    ("opt/advantage_std", "roll/return_mean"),
    _advantages,
    lambda run, _: advice("Normalise advantages.", changed(run, "normalize_advantage", True)),
    raise_after=5,
    of=10,
    after=0.05,
)


def _spent(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    rate = row.metrics["hp/learning_rate"]
    failing = rate <= 0.0 and row.progress < 0.95
    return Judged(
        Evidence(
            "hp/learning_rate",
            f"learning_rate is 0 with {1 - row.progress:.0%} of the budget left",
            {"progress": row.progress},
        )
        if failing
        else None
    )


def _longer(run: RunContext, evidence: Evidence) -> Advice:
    written = run.written("learning_rate")
    if isinstance(written, dict) and "to" in written:
        longer = {key: value for key, value in written.items() if key != "to"}
        return advice("The schedule ends before the run: let it last.", changed(run, "learning_rate", longer))
    if isinstance(written, int | float):
        return advice("Nothing can be learnt at a rate of 0.", changed(run, "learning_rate", 3e-4))
    return Advice("The schedule ends before the run does: stretch it (`--reschedule` when a run is extended).")


RATE_ZERO = AlertRule(
    "learning-rate-zero",
    "warning",
    "the learning rate has reached 0 early",
    "The schedule of learning_rate came to 0 with more than a twentieth of the budget left: the rest teaches nothing.",
    ("hp/learning_rate",),
    _spent,
    _longer,
    raise_after=3,
    of=3,
    clear_after=1,
)

RULES = (NEGATIVE, NONE, EXPLODING, REWARD_SCALE, ADVANTAGE_SCALE, RATE_ZERO)
