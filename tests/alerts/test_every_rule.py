"""For each rule: rows that raise it, and rows that nearly do."""

import gymnasium
import pytest

from gymlab.alerts.context import RunContext
from gymlab.alerts.engine import AlertEngine
from gymlab.alerts.registry import all_rules, names
from gymlab.metrics.bounds import Context
from tests.alerts.rows import SETTINGS, clock

pytestmark = pytest.mark.fast

UPDATES = 40
BOX = gymnasium.spaces.Box(-1.0, 1.0, (1,))


def then(first, later, at=20):
    """`first` for some updates, then `later`."""
    return [first] * at + [later] * (UPDATES - at)


def judged(**metrics):
    """Keys as `opt__kl`."""
    return {name.replace("__", "/", 1): value for name, value in metrics.items()}


def variance(explained, loss=1.0):
    return judged(opt__explained_variance=explained, opt__value_loss=loss)


def kl(value, rate=1e-3, entropy=0.5, **more):
    return judged(opt__approx_kl=value, hp__learning_rate=rate, opt__entropy=entropy, **more)


def greedy(value):
    return judged(eval__greedy_mean=value, eval__sampled_mean=100.0, eval__greedy_episodes=100.0)


def shares(favourite):
    return {"roll/action_share/0": favourite, "roll/action_share/1": 1 - favourite}


# The failing row, the nearly failing row (or whole histories), and what else the run needs.
CASES = {
    "actions-clipped": (judged(roll__action_clipped=0.45, opt__entropy=1.4),
        judged(roll__action_clipped=0.38, opt__entropy=1.4), {"space": BOX}),
    "advantage-scale": (judged(opt__advantage_std=60.0), judged(opt__advantage_std=45.0),
        {"ppo.normalize_advantage": False}),
    "bounds-broken": (judged(opt__clip_fraction=1.01), judged(opt__clip_fraction=1.00005), {}),
    "clip-fraction-high": (judged(opt__clip_fraction=0.45), judged(opt__clip_fraction=0.38), {}),
    "counter-fell": (then({"episodes": 9.0}, {"episodes": 8.0}), then({"episodes": 9.0}, {"episodes": 9.0}), {}),
    "dead-units": (judged(opt__dead_units=0.55), judged(opt__dead_units=0.45), {}),
    "entropy-collapse": (judged(opt__entropy=0.018), judged(opt__entropy=0.024), {}),  # 3 % of 0.693 are 0.021
    "entropy-stuck": (judged(opt__entropy=0.685), judged(opt__entropy=0.675), {}),  # 98 % are 0.679
    "eval-below-training": (judged(eval__sampled_mean=2.0, roll__return_min=15.0),
        judged(eval__sampled_mean=16.0, roll__return_min=15.0), {}),
    "explained-variance-low": (variance(0.01), variance(0.04), {}),
    "explained-variance-negative": (variance(-0.4), variance(-0.25), {}),
    "gradient-spikes": ([judged(opt__grad_norm=150.0 if at in (20, 30) else 1.0) for at in range(UPDATES)],
        [judged(opt__grad_norm=80.0 if at in (20, 30) else 1.0) for at in range(UPDATES)], {}),
    "gradients-always-clipped": (judged(opt__grad_norm=11.0, hp__max_grad_norm=0.5),
        judged(opt__grad_norm=9.0, hp__max_grad_norm=0.5), {}),
    "greedy-below-sampled": (greedy(30.0), greedy(65.0), {}),
    "identical-envs": (judged(env__copies=1.0), judged(env__copies=0.0), {}),
    "initial-action-mean": (judged(roll__action_mean=0.7), judged(roll__action_mean=0.4), {"space": BOX}),
    "initial-action-std": (judged(roll__action_std=0.1), judged(roll__action_std=0.15), {"space": BOX}),
    "initial-policy-not-uniform": (shares(0.85), shares(0.7), {}),
    "kl-high": (kl(0.06), kl(0.045), {}),
    "kl-low": (kl(5e-6), kl(2e-5), {}),
    "kl-stops-often": (judged(opt__kl_stop_fraction=0.6), judged(opt__kl_stop_fraction=0.45), {"ppo.target_kl": 0.01}),
    "learning-rate-zero": (then({"hp/learning_rate": 1e-3}, {"hp/learning_rate": 0.0}),
        then({"hp/learning_rate": 1e-3}, {"hp/learning_rate": 0.0}, at=38), {}),
    "no-episode-finished": ({"roll/return_window": 0.0}, then({"roll/return_window": 0.0}, {}, at=4),
        {"limit": 3000}),
    "observation-scale": (judged(env__obs_min=-150.0, env__obs_max=1.0), judged(env__obs_min=-90.0, env__obs_max=1.0),
        {}),
    "return-collapsed": ([{"roll/return_mean": value} for value in [20.0] * 10 + [100.0] * 10 + [50.0] * 20],
        [{"roll/return_mean": value} for value in [20.0] * 10 + [100.0] * 10 + [70.0] * 20], {}),
    "return-stalled": (then({"roll/return_mean": 20.0}, {"roll/return_mean": 100.0}),
        [{"roll/return_mean": 20.0 + 2 * at} for at in range(UPDATES)], {}),
    "reward-never-seen": (judged(roll__reward_nonzero=0.0, roll__train_reward_std=0.0),
        judged(roll__reward_nonzero=0.001, roll__train_reward_std=0.03), {}),
    "reward-scale": (judged(opt__target_std=1200.0, opt__target_mean=0.0),
        judged(opt__target_std=900.0, opt__target_mean=0.0), {}),
    "saturated-units": (judged(opt__saturated_units=0.97), judged(opt__saturated_units=0.75), {}),
    "speed-drop": (then({"time/sps": 1000.0}, {"time/sps": 300.0}),
        then({"time/sps": 1000.0}, {"time/sps": 450.0}), {}),
    "stale-transitions": (judged(roll__stale_fraction=0.85, roll__used_transitions=100.0),
        judged(roll__stale_fraction=0.75, roll__used_transitions=100.0), {}),
    "tracker-outage": (judged(sys__trackers_down=1.0), judged(sys__trackers_down=0.0), {}),
    "value-loss-exploding": (then({"opt/value_loss": 1.0}, {"opt/value_loss": 120.0}),
        then({"opt/value_loss": 1.0}, {"opt/value_loss": 90.0}), {}),
}  # fmt: skip
RULES = {rule.id: rule for rule, _ in all_rules()}


def ever_raised(name, rows, space=None, limit=None, **settings):
    spaces = space or gymnasium.spaces.Discrete(2)
    run = RunContext(Context(spaces, max_episode_steps=limit, settings=SETTINGS | {"n_steps": 25} | settings))
    watch = AlertEngine([RULES[name]], run)
    rows = rows if isinstance(rows, list) else [rows] * UPDATES
    for update, row in enumerate(rows, 1):
        base = {"time/progress": update / UPDATES, "roll/return_mean": 20.0, "roll/return_window": 100.0}
        watch.fold(clock(update), base | row)
    return bool(watch.alerts())


@pytest.mark.parametrize("name", CASES)
def test_a_rule_is_raised_by_its_fault_and_not_by_a_near_miss(name):
    failing, nearly, settings = CASES[name]
    assert ever_raised(name, failing, **settings)
    assert not ever_raised(name, nearly, **settings)


def test_every_rule_has_a_fault_and_a_near_miss():
    assert list(CASES) == names()
