"""Alert rules for the policy: KL per update, clip fraction, entropy."""

from __future__ import annotations

import math

from gymlab.alerts.context import RunContext
from gymlab.alerts.engine import Advice, AlertRule, Evidence, Judge, Judged, JudgedRow, Memory
from gymlab.alerts.overrides import advice, batch_sizes, changed, higher_rate, lower_rate, times

KL_HIGH = 0.05  # nats; five times what is usual
CLIPPED = 0.4
COLLAPSED = 0.03  # of the highest entropy
AT_THE_EDGE = 0.4  # of the components of continuous actions; a std of 1 in [-1, 1] has 0.32
UNDECIDED = 0.98
SPENT_RATE = 0.1  # of its highest value: a schedule this far down is meant to move little


def _kl_limit(run: RunContext) -> float:
    return max(KL_HIGH, 2 * (run.number("target_kl") or 0.0))


def _kl_high(metric: str) -> Judge:
    def judge(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
        kl = row.metrics[metric]
        if math.isnan(kl):
            return None
        worst = max(memory.get("worst", 0.0), kl)
        limit = _kl_limit(run)
        found = (
            Evidence(
                metric,
                f"KL of {kl:.3g} nats in one update, more than {limit:g}",
                {"kl": kl, "limit": limit, "worst": worst},
            )
            if kl > limit
            else None
        )
        return Judged(found, {"worst": worst})

    return judge


def _smaller_steps(run: RunContext, evidence: Evidence) -> Advice:
    worst = evidence.numbers.get("worst", evidence.numbers.get("kl", 1.0))
    rate = lower_rate(run, min(0.5, max(0.1, math.sqrt(0.02 / max(worst, 1e-9)))))
    more = " or fewer epochs" if run.number("epochs") else ""
    guard = "; target_kl=0.03 ends such updates early" if "target_kl" in _leaves(run) else ""
    return advice(f"A lower learning_rate{more} keeps updates within what their data says{guard}.", rate)


def _leaves(run: RunContext) -> set[str]:
    return {key.rpartition(".")[2] for key in run.settings}


def _kl_low(metric: str, limit: float) -> Judge:
    def judge(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
        kl = row.metrics[metric]
        returned = row.metrics["roll/return_mean"]
        rate = row.metrics["hp/learning_rate"]
        most = run.number("learning_rate") or 0.0
        if math.isnan(kl) or rate < SPENT_RATE * most or run.reached(returned):
            return None
        # A policy that has made up its mind, or had no finished episode to learn from, stands still for other reasons.
        sure = run.choices is not None and row.metrics["opt/entropy"] < 0.1 * run.choices
        if sure or row.metrics.get("opt/gradient_steps", 1.0) == 0:
            return None
        if row.metrics.get("opt/clip_fraction", 0.0) > CLIPPED:
            return None  # the clip range holds it, not the step size
        return Judged(
            Evidence(
                metric,
                f"KL of {kl:.2g} nats per update, less than {limit:g}: the policy hardly moves",
                {"kl": kl, "limit": limit},
            )
            if kl < limit
            else None
        )

    return judge


def _larger_steps(run: RunContext, evidence: Evidence) -> Advice:
    factor = min(30.0, math.sqrt(1e-3 / max(evidence.numbers["kl"], 1e-7)))
    return advice(
        "Nothing is learnt from an update that changes nothing: a higher learning_rate. If the reward is always the "
        "same there is nothing to learn from, and the env is where to look.",
        higher_rate(run, factor),
    )


def kl_high(metric: str) -> AlertRule:
    """For an algorithm that reports how far it moved the policy as this metric."""
    return AlertRule(
        "kl-high",
        "warning",
        "updates move the policy too far",
        f"The policy after an update differs so much from the one that collected the data (KL above {KL_HIGH:g} nats, "
        "or twice target_kl) that the data says little about it. Learning becomes unstable or collapses.",
        (metric,),
        _kl_high(metric),
        _smaller_steps,
        raise_after=3,
        of=10,
        clear_after=10,
        requests_histograms=True,
    )


def kl_low(metric: str, limit: float) -> AlertRule:
    """The same, for policies that stand still."""
    return AlertRule(
        "kl-low",
        "warning",
        "updates hardly move the policy",
        f"KL below {limit:g} nats in every one of ten updates, while the learning rate is not yet spent and the goal "
        "is not reached: the budget passes without learning.",
        (metric, "opt/entropy", "roll/return_mean", "hp/learning_rate"),
        _kl_low(metric, limit),
        _larger_steps,
        raise_after=10,
        of=10,
        clear_after=5,
        after=0.05,
    )


def _clipped(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    share = row.metrics["opt/clip_fraction"]
    if math.isnan(share):
        return None
    return Judged(
        Evidence(
            "opt/clip_fraction",
            f"{share:.0%} of the samples left the clip range",
            {"clip_fraction": share, "limit": CLIPPED, "clip_range": row.metrics.get("hp/clip_range", math.nan)},
        )
        if share > CLIPPED
        else None
    )


def _less_clipping(run: RunContext, evidence: Evidence) -> Advice:
    # The range of that update: a schedule of it may have come to 0. Evidence leaves NaN out.
    clip_range = evidence.numbers.get("clip_range", run.number("clip_range"))
    if clip_range is not None and clip_range < 0.08:
        return advice("The clip range is tight: widen it.", changed(run, "clip_range", 0.2))
    epochs = run.number("epochs") or 1
    fewer = changed(run, "epochs", max(1, int(epochs) // 2)) if epochs > 10 else {}
    larger = batch_sizes(run)
    hint = f" Larger minibatches (batch_size={larger}) help too." if larger else ""
    return advice(
        f"Most of the gradient is cut away: fewer epochs or a lower learning_rate.{hint}", lower_rate(run, 0.4), fewer
    )


CLIP_FRACTION_HIGH = AlertRule(
    "clip-fraction-high",
    "warning",
    "most samples leave the clip range",
    f"More than {CLIPPED:.0%} of the samples have a probability ratio beyond clip_range: their gradient is cut away, "
    "and the update has gone further than its data allows.",
    ("opt/clip_fraction",),
    _clipped,
    _less_clipping,
    raise_after=4,
    of=8,
    clear_after=8,
)


def _collapse(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    entropy = row.metrics["opt/entropy"]
    returned = row.metrics["roll/return_mean"]
    most = run.choices
    if math.isnan(entropy) or most is None:
        return None
    done = memory.get("done", 0.0) or float(run.reached(returned))  # a policy may be sure once it knows
    share = entropy / most
    failing = share < COLLAPSED and not done
    return Judged(
        Evidence(
            "opt/entropy",
            f"entropy {entropy:.3g} is {share:.1%} of its maximum {most:.3g} before the goal was reached",
            {"entropy": entropy, "max": most, "share": share},
        )
        if failing
        else None,
        {"done": done},
    )


def _explore(run: RunContext, evidence: Evidence) -> Advice:
    now = run.number("entropy_coef") or 0.0
    more = times(run, "entropy_coef", 3.0, most=0.1) if now > 1e-3 else changed(run, "entropy_coef", 0.01)
    high = (run.number("learning_rate") or 0.0) > 5e-3
    return advice(
        "The policy has made up its mind too soon and explores no more: a larger entropy_coef, a lower learning_rate "
        "where updates are large.",
        lower_rate(run, 0.3) if high else {},
        more,
    )


ENTROPY_COLLAPSE = AlertRule(
    "entropy-collapse",
    "warning",
    "the policy stopped exploring",
    f"The entropy of a discrete policy fell below {COLLAPSED:.0%} of its maximum before the goal was ever reached: it "
    "does one thing and will not find anything better.",
    ("opt/entropy", "roll/return_mean"),
    _collapse,
    _explore,
    raise_after=5,
    of=5,
    clear_after=5,
    requests_histograms=True,
)


def _at_edges(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    """A policy that has learnt to act at the edges is cut there too: its noise has shrunk since the first rollout."""
    share = row.metrics["roll/action_clipped"]
    entropy = row.metrics["opt/entropy"]
    if math.isnan(share) or math.isnan(entropy):
        return None
    memory = memory or {"share": share, "entropy": entropy}
    if run.reached(row.metrics["roll/return_mean"]):
        return Judged(None, memory)
    noisy = memory["share"] > AT_THE_EDGE or entropy > memory["entropy"] + 0.1
    text = f"{share:.0%} of the action components lay outside the space and were cut to its edge"
    found = Evidence("roll/action_clipped", text, {"share": share, "grown": float(entropy > memory["entropy"] + 0.1)})
    return Judged(found if noisy and share > AT_THE_EDGE else None, memory)


def _narrower(run: RunContext, evidence: Evidence) -> Advice:
    coefficient = run.number("entropy_coef") or 0.0
    if evidence.numbers["grown"] and coefficient > 0:
        return advice("The noise has grown beyond the space: a smaller entropy_coef.", times(run, "entropy_coef", 0.1))
    text = "Much of the exploration is lost at the edges: less noise"
    width = run.width("roll/action_mean")
    target = None if width is None else round(math.log(0.25 * width), 1)
    now = run.number("policy.log_std_init")
    if target is not None and now is not None and target < now:
        return advice(f"{text}.", changed(run, "policy.log_std_init", target))
    return Advice(f"{text}, and a Box that is centred: wrap the env so that its actions lie within [-1, 1].")


ACTIONS_CLIPPED = AlertRule(
    "actions-clipped",
    "warning",
    "actions are cut at the edges of their space",
    f"More than {AT_THE_EDGE:.0%} of the components of continuous actions lie outside the space, from the first "
    "rollout on or because the noise has grown since, and the goal is not reached: different actions have the same "
    "effect, so much of the exploration is lost.",
    ("roll/action_clipped", "opt/entropy", "roll/return_mean"),
    _at_edges,
    _narrower,
    raise_after=3,
    of=5,
    clear_after=5,
)


def _stuck(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    entropy = row.metrics["opt/entropy"]
    most = run.choices
    if math.isnan(entropy) or most is None or run.reached(row.metrics["roll/return_mean"]):
        return None
    failing = entropy > UNDECIDED * most
    return Judged(
        Evidence(
            "opt/entropy",
            f"entropy {entropy:.4g} is still {entropy / most:.1%} of its maximum {most:.4g}",
            {"entropy": entropy, "max": most},
        )
        if failing
        else None
    )


def _decide(run: RunContext, evidence: Evidence) -> Advice:
    if (run.number("entropy_coef") or 0.0) >= 0.02:
        return advice(
            "The entropy bonus outweighs the task: a smaller entropy_coef.",
            times(run, "entropy_coef", 0.1, most=0.01),
        )
    return advice(
        "The policy is still as good as random: a higher learning_rate; if the reward is never found, help exploration "
        "(a shaped reward, longer episodes, more envs).",
        higher_rate(run, 3.0),
    )


ENTROPY_STUCK = AlertRule(
    "entropy-stuck",
    "warning",
    "the policy is still random",
    f"A quarter of the budget is gone and the entropy is above {UNDECIDED:.0%} of its maximum: nothing was learnt.",
    ("opt/entropy", "roll/return_mean"),
    _stuck,
    _decide,
    raise_after=8,
    of=10,
    clear_after=5,
    after=0.25,
)


def _stopped_early(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    share = row.metrics["opt/kl_stop_fraction"]
    if run.number("target_kl") is None or math.isnan(share):
        return None
    return Judged(
        Evidence("opt/kl_stop_fraction", f"target_kl ended {share:.0%} of all updates early", {"share": share})
        if share > 0.5
        else None
    )


KL_STOPS = AlertRule(
    "kl-stops-often",
    "info",
    "target_kl ends most updates early",
    "More than half of all updates were ended by target_kl: their later epochs are paid for by shuffling and never "
    "run. The learning rate is too high for the target.",
    ("opt/kl_stop_fraction",),
    _stopped_early,
    lambda run, _: advice("A lower learning_rate lets updates run to their end.", lower_rate(run, 0.5)),
    raise_after=5,
    of=5,
    after=0.1,
)
