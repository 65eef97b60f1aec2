"""Rules and rows of metrics for the tests of alerts."""

import math
import random

import gymnasium

from gymlab.alerts.context import RunContext
from gymlab.alerts.custom import parse_rules
from gymlab.core.clock import Clock
from gymlab.metrics.bounds import Context

SETTINGS = {
    "budget": "10k env_steps", "n_envs": 4, "n_steps": 25, "env.id": "CartPole-v1", "env.solved_at": 475,
    "ppo.learning_rate": "lin_1e-3", "ppo.entropy_coef": 0, "ppo.epochs": 4, "ppo.target_kl": None,
    "normalize.reward": False,
}  # fmt: skip
RUN = RunContext(Context(gymnasium.spaces.Discrete(2), settings=SETTINGS))
RULE = {"id": "too-much", "metric": "opt/entropy", "above": 0.5, "for": "2 of 3"}


def clock(update):
    return Clock(update, 25 * update, 100 * update, update, 0.1 * update)


def own(**changes):
    return [rule.rule() for rule in parse_rules([{**RULE, **changes}])]


def fold(watch, values, metric="opt/entropy"):
    """What each row changed: `+` raised, `-` cleared, `.` nothing."""
    marks = ""
    for update, value in enumerate(values, 1):
        changes = watch.fold(clock(update), {metric: value, "time/progress": update / 100})
        marks += "".join("+" if change.raised else "-" for change in changes) or "."
    return marks


def history(seed, length=120):
    """Rows such as a run gives, failing at times, with late values in some of them."""
    dice = random.Random(seed)
    for update in range(1, length):
        failing = 40 < update < 70
        early = {
            "time/progress": update / length, "roll/return_window": 100.0, "hp/learning_rate": 1e-3,
            "roll/return_mean": math.nan if update < 3 else 20.0 + (0 if failing else update) + dice.random(),
            "opt/approx_kl": dice.random() * (0.3 if failing else 0.04), "opt/clip_fraction": dice.random() * 0.6,
            "opt/entropy": dice.random() * (0.02 if failing else 0.6), "opt/value_loss": dice.expovariate(1.0),
            "opt/explained_variance": dice.uniform(-1, 1), "opt/grad_norm": dice.lognormvariate(0, 3),
            "hp/max_grad_norm": 0.5, "roll/action_share/0": 0.9, "roll/action_share/1": 0.1,
        }  # fmt: skip
        late = {}
        if update % 20 == 0:
            late = {"eval/sampled_mean": dice.uniform(0, 100), "eval/greedy_mean": dice.uniform(0, 100)}
        yield clock(update), early, late


def in_parts(watch, rows):
    for at, early, late in rows:
        watch.fold(at, early)
        if late:
            watch.fold(at, late)
    return watch
