"""Alert rules for episodes, training returns and evaluations."""

from __future__ import annotations

import math

from gymlab.alerts.context import RunContext
from gymlab.alerts.engine import Advice, AlertRule, Evidence, Judged, JudgedRow, Memory
from gymlab.alerts.overrides import advice, changed, lower_rate, times
from gymlab.core.format import format_count

PATIENCE = 0.35  # of the budget without a better return
FALLEN = 0.5  # of what had been gained
GAP = 0.5  # of what training has gained
FULL_WINDOW = 100  # episodes


def _nothing_ends(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    if row.metrics["roll/return_window"] > 0:
        return Judged()
    steps = row.clock.vec_steps
    limit = run.context.max_episode_steps
    text = f"no episode has ended in {steps} steps of each env"
    if limit is not None and steps < limit:
        if run.vec_steps is None or run.vec_steps >= limit:
            return None  # the time limit will end the first ones
        text += f"; the budget is {run.vec_steps} of them, the time limit {limit}"
    return Judged(Evidence("roll/episodes", text, {"vec_steps": steps}))


def _end_episodes(run: RunContext, evidence: Evidence) -> Advice:
    limit = run.context.max_episode_steps
    steps = evidence.numbers["vec_steps"]
    if not limit:
        shorter = changed(run, "env.max_episode_steps", max(10, int(steps) // 10))
        return advice("Without an end no return is known: a time limit, or a longer budget.", shorter)
    if steps >= limit:
        return Advice("The time limit should have ended them: `gymlab envs check`.")
    n_envs = run.number("n_envs") or 1
    enough = f"{format_count(int(10 * limit * n_envs))} env_steps"
    return advice("The run ends before an episode has to: a longer budget, or fewer envs.", {"budget": enough})


NO_EPISODE = AlertRule(
    "no-episode-finished",
    "warning",
    "no episode has finished",
    "A tenth of the budget is gone, not one episode has ended, and the time limit lies beyond the budget or has been "
    "passed: no return is known, and REINFORCE cannot learn.",
    ("roll/return_window",),
    _nothing_ends,
    _end_episodes,
    raise_after=3,
    of=3,
    clear_after=1,
    after=0.1,
)


def _comparable(memory: Memory, run: RunContext) -> Memory:
    """The memory; only the time limit where a resume has changed that: older returns say nothing of those now."""
    limit = float(run.context.max_episode_steps or 0)
    return memory if memory.get("limit") == limit else {"limit": limit}


def _returns(row: JudgedRow, memory: Memory, run: RunContext) -> tuple[float, Memory] | None:
    """The training return and what it was at its first, best and lowest; from a full window on."""
    returned = row.metrics["roll/return_mean"]
    window = row.metrics["roll/return_window"]
    if math.isnan(returned) or window < 20:
        return None
    memory = _comparable(memory, run)
    if "best" not in memory:
        memory = {**memory, "first": returned, "best": returned, "best_at": row.progress, "spread": 0.0}
    spread = max(memory["spread"], abs(row.metrics.get("roll/return_std", 0.0)))
    return returned, {**memory, "spread": spread if math.isfinite(spread) else memory["spread"]}


def _stalled(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    found = _returns(row, memory, run)
    if found is None:
        return None
    returned, memory = found
    gained = returned - memory["best"]
    if gained > 0.02 * max(memory["best"] - memory["first"], abs(memory["best"]) * 0.5):
        memory = {**memory, "best": returned, "best_at": row.progress}
    waited = row.progress - memory["best_at"]
    failing = waited > PATIENCE and not run.reached(max(returned, memory["best"]))
    goal = "" if run.goal is None else f", the goal is {run.goal:g}"
    return Judged(
        Evidence(
            "roll/return_mean",
            f"return {returned:.4g} has not got better than {memory['best']:.4g} for {waited:.0%} of the budget{goal}",
            {"return": returned, "best": memory["best"], "waited": waited},
        )
        if failing
        else None,
        memory,
    )


def _move_on(run: RunContext, evidence: Evidence) -> Advice:
    now = run.number("entropy_coef") or 0.0
    more = changed(run, "entropy_coef", 0.01) if now < 1e-3 else {}
    return advice(
        "Learning has come to rest below its goal. Where other alerts name a cause, follow them first; else more "
        "exploration, a larger gamma for distant rewards, or a longer budget.",
        more or times(run, "entropy_coef", 2.0),
    )


STALLED = AlertRule(
    "return-stalled",
    "warning",
    "the return has stopped rising",
    f"The training return has not risen for {PATIENCE:.0%} of the budget and the goal is not reached.",
    ("roll/return_mean", "roll/return_window"),
    _stalled,
    _move_on,
    raise_after=3,
    of=3,
    clear_after=3,
    after=PATIENCE,
)


def _collapsed(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    found = _returns(row, memory, run)
    if found is None:
        return None
    returned, memory = found
    if returned > memory["best"]:
        memory = {**memory, "best": returned}
    gain = memory["best"] - memory["first"]
    lost = memory["best"] - returned
    failing = gain > 0 and lost > FALLEN * gain and lost > 0.5 * memory["spread"]
    return Judged(
        Evidence(
            "roll/return_mean",
            f"return {returned:.4g}, after a best of {memory['best']:.4g} (first {memory['first']:.4g})",
            {"return": returned, "best": memory["best"], "first": memory["first"]},
        )
        if failing
        else None,
        memory,
    )


def _hold_on(run: RunContext, evidence: Evidence) -> Advice:
    falling = {} if _falls(run) else changed(run, "learning_rate", _falling(run))
    return advice(
        "What was learnt is lost again: smaller steps, best with a learning_rate that falls to 0; the best checkpoint "
        "is kept.",
        lower_rate(run, 0.5) if _falls(run) else falling,
    )


def _falls(run: RunContext) -> bool:
    written = run.written("learning_rate")
    return not isinstance(written, int | float)


def _falling(run: RunContext) -> str:
    high = run.number("learning_rate") or 3e-4
    return f"lin_{min(high, 1e-3) if high > 5e-3 else high:g}"


COLLAPSED = AlertRule(
    "return-collapsed",
    "warning",
    "the return has collapsed",
    f"More than {FALLEN:.0%} of what had been gained since the start is lost again, beyond the spread of returns.",
    ("roll/return_mean", "roll/return_window"),
    _collapsed,
    _hold_on,
    raise_after=3,
    of=5,
    clear_after=5,
)


def _span(row: JudgedRow, memory: Memory, run: RunContext) -> tuple[float, float, Memory] | None:
    """The training return, what training has gained so far, and the memory with it."""
    returned = row.metrics["roll/return_mean"]
    if math.isnan(returned):
        return None
    memory = _comparable(memory, run)
    low = min(memory.get("low", returned), returned)
    high = max(memory.get("high", returned), returned)
    return returned, high - low, {**memory, "low": low, "high": high}


def _gap(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    if row.metrics["roll/return_window"] < FULL_WINDOW:
        return None  # a few short episodes are no level to compare with
    found = _span(row, memory, run)
    if found is None:
        return None
    returned, span, memory = found
    score = row.metrics["eval/sampled_mean"]
    error = row.metrics.get("eval/sampled_std", 0.0) / math.sqrt(max(row.metrics.get("eval/sampled_episodes", 1.0), 1))
    span = max(span, abs(returned) * 0.5)
    # A policy that has just collapsed shows in the window too, if only at its lower end.
    below_all = score < row.metrics.get("roll/return_min", math.inf)
    failing = below_all and returned - score > max(GAP * span, 3 * error)
    return Judged(
        Evidence(
            "eval/sampled_mean",
            f"evaluation (sampled) gives {score:.4g}, training {returned:.4g}",
            {"eval": score, "train": returned},
        )
        if failing
        else None,
        memory,
    )


EVAL_GAP = AlertRule(
    "eval-below-training",
    "warning",
    "evaluation is far below training",
    f"The same policy, acting in the same way, gets far less when it is evaluated (by {GAP:.0%} of what training has "
    f"gained, and less than in any of {FULL_WINDOW} recent episodes): the evaluated env differs from the trained one, "
    "or normalising does.",
    ("eval/sampled_mean", "roll/return_mean", "roll/return_window"),
    _gap,
    lambda run, _: Advice("Compare the two envs: wrappers, kwargs, time limits, and statistics of the normaliser."),
    raise_after=2,
    of=2,
    clear_after=1,
)


def _greedy(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    found = _span(row, memory, run)
    if found is None:
        return None
    _, _, memory = found
    greedy = row.metrics["eval/greedy_mean"]
    sampled = row.metrics["eval/sampled_mean"]
    memory = {**memory, "low": min(memory["low"], sampled), "high": max(memory["high"], sampled)}
    span = max(memory["high"] - memory["low"], abs(sampled) * 0.2)
    errors = [row.metrics.get(f"eval/{mode}_std", 0.0) for mode in ("greedy", "sampled")]
    error = math.hypot(*errors) / math.sqrt(max(row.metrics.get("eval/greedy_episodes", 1.0), 1))
    failing = sampled - greedy > max(GAP * span, 3 * error)
    return Judged(
        Evidence(
            "eval/greedy_mean",
            f"greedy {greedy:.4g}, sampled {sampled:.4g}: the likeliest actions alone do not work",
            {"greedy": greedy, "sampled": sampled},
        )
        if failing
        else None,
        memory,
    )


def _firm(run: RunContext, evidence: Evidence) -> Advice:
    coefficient = run.number("entropy_coef") or 0.0
    less = times(run, "entropy_coef", 0.1) if coefficient > 1e-3 else {}
    return advice(
        "The policy lives by its dice: train longer or with less entropy bonus, or judge it as it acts.",
        less or changed(run, "stop.solved_by", "sampled"),
    )


GREEDY_GAP = AlertRule(
    "greedy-below-sampled",
    "warning",
    "greedy play is far below sampled play",
    f"Taking the likeliest action gets less than drawing actions does, by more than {GAP:.0%} of what training has "
    "gained, late in the run.",
    ("eval/greedy_mean", "eval/sampled_mean", "roll/return_mean"),
    _greedy,
    _firm,
    raise_after=2,
    of=3,
    clear_after=2,
    after=0.4,
)

RULES = (NO_EPISODE, STALLED, COLLAPSED, EVAL_GAP, GREEDY_GAP)
