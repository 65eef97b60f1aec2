"""Alert rules for what learning is given: the size of observations, and rewards that never come."""

from __future__ import annotations

import math

from gymlab.alerts.context import RunContext
from gymlab.alerts.engine import Advice, AlertRule, Evidence, Judged, JudgedRow, Memory
from gymlab.alerts.overrides import advice, changed

LARGE = 100.0  # an observation feature; first layers are made for about 1
WIDE = 1e4  # a space beyond which bounds are no hint that the network scales or encodes what lies in it


def _large_features(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    if run.settings.get("normalize.obs"):
        return None
    sizes: dict[str, float] = {}
    for name, value in row.metrics.items():
        if not name.startswith(("env/obs_min", "env/obs_max")) or not math.isfinite(value):
            continue
        width = run.width(name)
        if width is None or width > WIDE:  # bytes are scaled and choices one-hot
            sizes[name] = abs(value)
    if not sizes:
        return None
    worst = max(sizes, key=lambda name: (sizes[name], name.count("/")))  # a feature's own name before that of all
    if sizes[worst] <= LARGE:
        return Judged()
    _, _, feature = worst.removeprefix("env/").partition("/")
    which = f"observation feature {feature}" if feature else "an observation feature"
    text = f"{which} reaches {row.metrics[worst]:.3g} and is not normalised; networks are made for about 1"
    return Judged(Evidence(worst, text, {"size": sizes[worst]}))


OBSERVATION_SCALE = AlertRule(
    "observation-scale",
    "warning",
    "observations are far from ordinary size",
    f"Without normalize.obs a feature of a Box is beyond ±{LARGE:g}: it drowns the others, and tanh units give ±1 "
    "whatever they see.",
    ("env/obs_min", "env/obs_max"),
    _large_features,
    lambda run, _: advice("Scale observations by their running mean and std.", changed(run, "normalize.obs", True)),
    raise_after=2,
    of=3,
    clear_after=3,
)


def _no_reward(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    share = row.metrics["roll/reward_nonzero"]
    if math.isnan(share) or memory.get("seen"):
        return Judged() if memory.get("seen") else None
    # A bonus of a wrapper's is something to learn from.
    seen = share > 0 or row.metrics["roll/train_reward_std"] > 0
    steps = row.clock.env_steps
    text = f"every reward of {steps} env_steps was 0"
    return Judged(None if seen else Evidence("roll/reward_nonzero", text, {"env_steps": steps}), {"seen": float(seen)})


def _find_reward(run: RunContext, evidence: Evidence) -> Advice:
    now = run.number("entropy_coef") or 0.0
    return advice(
        "There is nothing to learn from before a reward is found, whatever the other settings: check that the env pays "
        "at all, then shape the reward (env.wrappers), begin nearer to the goal, or explore for longer.",
        changed(run, "entropy_coef", 0.01) if now < 1e-3 else {},
    )


NO_REWARD = AlertRule(
    "reward-never-seen",
    "warning",
    "no reward was ever seen",
    "A tenth of the budget is gone and every reward was 0.",
    ("roll/reward_nonzero", "roll/train_reward_std"),
    _no_reward,
    _find_reward,
    raise_after=3,
    of=3,
    clear_after=1,
    after=0.1,
)

RULES = (OBSERVATION_SCALE, NO_REWARD)
