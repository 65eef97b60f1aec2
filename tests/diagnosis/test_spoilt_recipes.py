"""Spoilt recipes, trained for a moment: `diagnose` names first what was spoilt, and never that nothing is wrong."""

from contextlib import suppress

import pytest

from gymlab.core.errors import GymlabError
from gymlab.diagnosis.examine import examine, verdict
from gymlab.recipes.resolve import resolve
from gymlab.runs.paths import RunPaths
from gymlab.session.session import Options
from gymlab.session.start import train

SMALL = [
    "policy.hidden=[8]", "n_envs=4", "n_steps=32", "eval.episodes=8", "eval.final_episodes=8", "eval.every=50%",
    "checkpoints.every=100%", "batch_size=64", "epochs=4", "clip_range=0.2", "env.solved_at=475",
]  # fmt: skip
CARTPOLE = "CartPole-v1:ppo"
FAULTY = "tests.alerts.envs:FaultyEnv:ppo"
# What was spoilt, the recipe, the settings, and the finding that names it.
SPOILT = {
    "a learning rate of 0.3": (CARTPOLE, ["learning_rate=0.3"], {"unusual-learning-rate"}),
    "a learning rate of 1e-7": (CARTPOLE, ["learning_rate=1e-7"], {"unusual-learning-rate"}),
    "a learning rate that is 0 after a tenth": (CARTPOLE, ["learning_rate={start: 1e-3, end: 0, to: 0.1}"],
        {"learning-rate-zero"}),
    "no foresight": (CARTPOLE, ["gamma=0.2"], {"unusual-gamma"}),
    "paid for chance": (CARTPOLE, ["entropy_coef=5"], {"unusual-entropy-coef"}),
    "an unweighted value": (CARTPOLE, ["value_coef=1e-4"], {"unusual-value-coef"}),
    "gradients cut to nothing": (CARTPOLE, ["max_grad_norm=1e-6"], {"unusual-max-grad-norm"}),
    "a clip range of 0.001": (CARTPOLE, ["clip_range=0.001"], {"unusual-clip-range"}),
    "advantages of one step": (CARTPOLE, ["gae_lambda=0"], {"unusual-gae-lambda"}),
    "an epsilon of 10": (CARTPOLE, ["optimizer_eps=10"], {"unusual-optimizer-eps"}),
    "sixty epochs": (CARTPOLE, ["epochs=60"], {"unusual-epochs", "kl-high"}),
    "updates of eight steps": (CARTPOLE, ["n_envs=2", "n_steps=4", "batch_size=8"], {"unusual-n-steps"}),
    "minibatches of two": (CARTPOLE, ["batch_size=2"], {"unusual-batch-size"}),
    "plain SGD": (CARTPOLE, ["optimizer=sgd", "learning_rate=3e-4"], {"unusual-optimizer"}),
    "rewards of ten thousand": (CARTPOLE, ["env.wrappers=[{scale_reward: 10000}]"], {"reward-scale"}),
    "rewards of a millionth": (CARTPOLE, ["env.wrappers=[{scale_reward: 1e-6}]"], {"reward-scale"}),
    "features of a million": (FAULTY, ["env.kwargs={fault: huge}"], {"observation-scale"}),
    "no reward": (FAULTY, ["env.kwargs={fault: unpaid}"], {"reward-never-seen"}),
    "observations outside their space": (FAULTY, ["env.kwargs={fault: outside}"], {"bounds-broken"}),
    "noise twenty times the space": (FAULTY, ["env.kwargs={fault: box}", "policy.log_std_init=3"],
        {"actions-clipped"}),
    "no noise": (FAULTY, ["env.kwargs={fault: box}", "policy.log_std_init=-6"], {"initial-action-std"}),
    "a budget shorter than an episode": (FAULTY, ["env.kwargs={length: 3000}", "env.max_episode_steps=3000"],
        {"no-episode-finished"}),
    "an env that breaks": (FAULTY, ["env.kwargs={fault: breaks}"], {"run-failed"}),
}  # fmt: skip
LEAST = 0.8  # of them have what was spoilt first


def diagnosed(name, folder):
    reference, settings, _ = SPOILT[name]
    recipe = resolve(reference, [*SMALL, *settings], budget="4k").recipe
    with suppress(GymlabError):  # the run's folder has the failure
        train(recipe, Options(run_id="spoilt"), folder)
    return examine(RunPaths(folder / "spoilt"))


@pytest.mark.slow
def test_what_was_spoilt_comes_first(tmp_path):
    missed = {}
    for number, (name, (_, _, causes)) in enumerate(SPOILT.items()):
        found = diagnosed(name, tmp_path / str(number))
        ids = [finding.id for finding in found.findings]
        assert "nothing is wrong" not in verdict(found), name
        assert ids, name
        if ids[0] not in causes:
            missed[name] = ids[:4]
        print(f"{name}: {', '.join(ids[:4])}", flush=True)
    assert len(missed) <= (1 - LEAST) * len(SPOILT), missed
