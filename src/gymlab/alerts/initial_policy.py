"""Alert rules for the first rollout: an untrained policy should choose about uniformly."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gymlab.alerts.context import RunContext
from gymlab.alerts.engine import Advice, AlertRule, Evidence, Judge, Judged, JudgedRow, Memory
from gymlab.alerts.overrides import advice, changed

LEAST_ENTROPY = 0.9  # of the maximum
SHARES = "roll/action_share/"
OFF_CENTRE = 0.2  # of the action space's width
NARROW = 0.06  # std over width: a uniform choice has 0.29, all at the two edges 0.5
WIDE = 0.42


def _once(judge: Judge) -> Judge:
    """Judge the first row only; the second always passes, which clears the alert."""

    def first(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
        seen = memory.get("seen", 0.0)
        if seen >= 2 or run.masked:  # a mask forbids what would be uniform
            return None
        if seen == 1:
            return Judged(None, {"seen": 2.0})
        judged = judge(row, memory, run)
        return None if judged is None else Judged(judged.evidence, {"seen": 1.0})

    return first


def _shares(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    """Entropy of the first rollout's action shares, component by component."""
    if run.choices is None:
        return None
    shares = [value for name, value in row.metrics.items() if name.startswith(SHARES) and value > 0]
    names = [name for name in row.metrics if name.startswith(SHARES)]
    entropy = -sum(share * math.log(share) for share in shares)
    if entropy >= LEAST_ENTROPY * run.choices - _by_chance(len(names), run.samples or 64):
        return Judged()
    name = max(names, key=lambda name: row.metrics[name])
    action = name.removeprefix(SHARES)
    text = f"action {action} is {row.metrics[name]:.0%} of the first rollout; evenness {entropy / run.choices:.0%}"
    return Judged(Evidence(name, text, {"share": row.metrics[name], "entropy": entropy, "max": run.choices}))


def _by_chance(choices: int, samples: int) -> float:
    """How much entropy the shares of so few uniform draws may lack.

    Twice the number of samples times what is lacking is chi-squared: five standard deviations above its mean.
    """
    return (choices + 5 * math.sqrt(2 * choices)) / (2 * samples)


def _components(row: JudgedRow, name: str) -> Iterator[tuple[str, float]]:
    """One value per component of the action, or the one of all where there is only that."""
    parts = [(key, value) for key, value in row.metrics.items() if key.startswith(f"{name}/")]
    yield from parts or [(name, row.metrics[name])]


def _mean(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    judged = False
    for name, mean in _components(row, "roll/action_mean"):
        width = run.width(name)
        if not width or math.isnan(mean):
            continue
        judged = True
        middle = sum(run.limits(name)) / 2
        noise = 4 * 0.3 / math.sqrt(run.samples or 64)
        if abs(mean - middle) > (OFF_CENTRE + noise) * width:
            return Judged(
                Evidence(
                    name,
                    f"the first rollout's mean action is {mean:.3g}, the middle of the space is {middle:.3g}",
                    {"mean": mean, "middle": middle, "width": width},
                )
            )
    return Judged() if judged else None


def _std(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    judged = False
    for name, std in _components(row, "roll/action_std"):
        width = run.width(name.replace("action_std", "action_mean"))
        if not width or math.isnan(std):
            continue
        judged = True
        share = std / width
        # Two choices are the two edges of their space.
        if share < NARROW or (share > WIDE and run.choices is None):
            return Judged(
                Evidence(
                    name,
                    f"the first actions have std {std:.3g} in a space {width:.3g} wide; uniform is 0.29 of it",
                    {"std": std, "width": width},
                )
            )
    return Judged() if judged else None


def _centre(run: RunContext, evidence: Evidence) -> Advice:
    text = "Exploration starts lopsided: the policy's last layer should begin near 0 (a small gain, no bias)"
    if run.choices is not None:
        return Advice(f"{text}.")
    return Advice(f"{text}, and a Box should be centred: wrap the env so that its actions lie within [-1, 1].")


def _spread(run: RunContext, evidence: Evidence) -> Advice:
    if run.choices is not None:
        return Advice("The policy begins with a favourite action: its last layer should begin near 0 (a small gain).")
    log_std = round(math.log(0.3 * evidence.numbers["width"]), 1)
    return advice(
        "The first actions hardly explore, or pile up at the edges of the space.",
        changed(run, "policy.log_std_init", log_std),
    )


POLICY = AlertRule(
    "initial-policy-not-uniform",
    "warning",
    "the untrained policy has favourites",
    f"A fresh discrete policy should choose about evenly; the entropy of the first rollout's choices is below "
    f"{LEAST_ENTROPY:.0%} of its maximum, by more than so few choices may lack by chance. What is never tried is never "
    "learnt.",
    (f"{SHARES}*",),
    _once(_shares),
    _centre,
    requests_histograms=True,
    raise_after=1,
    of=1,
    clear_after=1,
)
MEAN = AlertRule(
    "initial-action-mean",
    "warning",
    "the first actions are lopsided",
    f"The mean action of the first rollout lies more than {OFF_CENTRE:.0%} of the action space's width from its "
    "middle.",
    ("roll/action_mean",),
    _once(_mean),
    _centre,
    raise_after=1,
    of=1,
    clear_after=1,
)
STD = AlertRule(
    "initial-action-std",
    "warning",
    "the first actions have the wrong spread",
    f"The std of the first rollout's actions is below {NARROW:.0%} of the action space's width (no exploration) or, "
    f"for continuous ones, above {WIDE:.0%} (nearly all are cut at the edges).",
    ("roll/action_std",),
    _once(_std),
    _spread,
    raise_after=1,
    of=1,
    clear_after=1,
)

RULES = (POLICY, MEAN, STD)
