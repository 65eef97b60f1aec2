"""Every rule is raised by a real training run with the fault it detects."""

import json

import pytest

from gymlab.alerts.engine import Alert
from gymlab.alerts.registry import names
from gymlab.recipes.keys import read_settings
from gymlab.recipes.resolve import resolve
from gymlab.session.session import Options
from gymlab.session.start import train
from gymlab.trackers.assemble import Trackers
from tests.alerts.test_agreement import contradictions

TINY = ["policy.hidden=[8]", "n_envs=4", "n_steps=32", "eval.episodes=8", "eval.final_episodes=8", "eval.every=25%"]
PPO = [*TINY, "checkpoints.every=100%", "batch_size=64", "epochs=4", "clip_range=0.2"]
CARTPOLE, FAULTY = ("CartPole-v1:ppo", PPO), ("tests.alerts.envs:FaultyEnv:ppo", PPO)
DEAD = ("tests/alerts/recipes/dead.yaml", TINY)
BIASED = ("tests/alerts/recipes/biased.yaml", TINY)

# (recipe, its settings), what is changed about it, its budget, and the alerts that it must raise.
QUICK = {
    "a learning rate far too high": (CARTPOLE, ["learning_rate=[[0,3e-3],[60%,3e-3],[61%,1.0]]"], "30k",
        {"entropy-collapse", "explained-variance-negative", "kl-high", "return-collapsed"}),
    "a learning rate of next to nothing": (CARTPOLE, ["learning_rate=1e-9", "max_grad_norm=1e-3"], "6k",
        {"entropy-stuck", "gradients-always-clipped", "kl-low", "return-stalled"}),
    "observations outside their space, a feature that miscounts": (FAULTY, ["env.kwargs={fault: outside}",
        "features=[tests.alerts.envs:Backwards]"], "2k", {"bounds-broken", "counter-fell"}),
    "features of a million": (FAULTY, ["env.kwargs={fault: huge}"], "6k", {"observation-scale", "saturated-units"}),
}  # fmt: skip
SLOW = {
    "rewards that grow with the age of the env": (FAULTY, ["env.kwargs={fault: growing}"], "6k",
        {"eval-below-training", "gradient-spikes", "reward-scale", "value-loss-exploding"}),
    "a reward for changing one's mind that nothing shows": (FAULTY, ["env.kwargs={fault: alternate}"], "6k",
        {"explained-variance-low", "greedy-below-sampled", "identical-envs"}),
    "an early end of the learning rate": (CARTPOLE, ["learning_rate={start: 1e-3, end: 0, to: 0.3}"], "6k",
        {"learning-rate-zero"}),
    "a clip range far too tight": (CARTPOLE, ["learning_rate=0.01", "clip_range=0.01"], "6k", {"clip-fraction-high"}),
    "a target KL that no update can keep": (CARTPOLE, ["learning_rate=3e-3", "target_kl=1e-6"], "6k",
        {"kl-stops-often"}),
    "actions without spread in a run shorter than an episode": (("Pendulum-v1:ppo", PPO), ["policy.log_std_init=-5"],
        "640", {"initial-action-std", "no-episode-finished"}),
    "actions from a corner of the space": (FAULTY, ["env.kwargs={fault: off-centre}"], "2k", {"initial-action-mean"}),
    "a reward that never comes": (FAULTY, ["env.kwargs={fault: unpaid}"], "2k", {"reward-never-seen"}),
    "noise far wider than the space": (FAULTY, ["env.kwargs={fault: box}", "policy.log_std_init=2"], "2k",
        {"actions-clipped"}),
    "a policy with a favourite": (BIASED, [], "2k", {"initial-policy-not-uniform"}),
    "units that never fire": (DEAD, [], "8k", {"dead-units"}),
    "rewards in thousands without any scaling": (("CartPole-v1:a2c", [*TINY, "n_steps=5"]),
        ["env.wrappers=[{scale_reward: 1000}]"], "20k", {"advantage-scale", "reward-scale"}),
    "episodes far longer than rollouts": (("Pendulum-v1:reinforce", TINY), ["n_steps=10"], "20k",
        {"stale-transitions"}),
    "an env that grows slow": (FAULTY, ["env.kwargs={fault: slow}"], "6k", {"speed-drop"}),
}  # fmt: skip


def alerts_of(name, folder, *more, **options):
    """Train the faulty recipe and read what the run left behind."""
    (reference, base), changes, budget, _ = (QUICK | SLOW)[name]
    result = train(resolve(reference, [*base, *changes, *more], budget=budget).recipe, Options(**options), folder)
    found = json.loads((result.run_dir / "alerts.json").read_text())["alerts"]
    assert contradictions([Alert.from_json(one) for one in found], read_settings(result.run_dir / "recipe.yaml")) == []
    return found


@pytest.mark.parametrize("fault", QUICK)
def test_a_faulty_run_raises_its_alerts(fault, tmp_path):
    found = {alert["id"]: alert for alert in alerts_of(fault, tmp_path)}
    assert QUICK[fault][-1] <= found.keys()
    assert list(found) == sorted(found)
    assert all(0 < alert["count"] <= alert["judged"] and alert["advice"] for alert in found.values())


@pytest.mark.slow
@pytest.mark.parametrize("fault", SLOW)
def test_a_faulty_run_raises_its_alerts_slowly(fault, tmp_path):
    assert SLOW[fault][-1] <= {alert["id"] for alert in alerts_of(fault, tmp_path)}


@pytest.mark.slow
def test_a_tracker_that_cannot_write_is_an_alert(tmp_path, caplog):
    blocks = json.dumps({"tests.alerts.envs:Blocks": {"path": str(tmp_path / "away/tensorboard")}})
    run = {"run_id": "away", "trackers": Trackers(tensorboard=True)}
    found = alerts_of("an env that grows slow", tmp_path, f"features=[{blocks}]", **run)
    assert "tracker-outage" in {alert["id"] for alert in found}
    assert "training is not affected" in caplog.text


def test_every_rule_is_raised_by_a_faulty_run():
    shown = {name for *_, raised in (QUICK | SLOW).values() for name in raised}
    assert shown | {"tracker-outage"} == set(names())
