"""`gymlab bench`: a recipe measured from outside, and what a peer is given to do the same."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gymlab.campaigns.bench.measure import measure_training
from gymlab.campaigns.bench.peer import measure_peer, same_work
from gymlab.campaigns.bench.speed_table import format_speeds, median_of
from gymlab.cli.main import app
from gymlab.core.errors import UserError
from gymlab.recipes.resolve import resolve

PEERS = Path(__file__).parents[2] / ".venv-peers" / "bin" / "python"


SMALL = ("policy.hidden=[8]", "epochs=1", "metrics.statistics=basic", "eval.final_episodes=2", "eval.episodes=2")


@pytest.mark.slow
def test_a_recipe_is_measured_and_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cache = Path(os.environ["GYMLAB_CACHE"])
    found = measure_training(["CartPole-v1:ppo", *SMALL, "eval.mode=sync", "--budget", "2048"], cache)
    assert found["env_steps"] == 2048
    assert found["steps_per_second"] > 0
    assert 0 < found["first_update_seconds"] < found["whole_process_seconds"]
    assert found["peak_mb"] > 10
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_first_turn_warms_up_and_does_not_count(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["bench", "CartPole-v1:ppo", *SMALL, "--budget", "2048", "--repeats", "1", "--json"])
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.stdout)["measured"]["gymlab"]) == 1


def test_the_peer_is_given_the_recipes_own_numbers():
    work = same_work(resolve("CartPole-v1:ppo").recipe, 1000)
    assert (work.env, work.n_envs, work.steps) == ("CartPole-v1", 8, 1000)
    assert work.settings["learning_rate"] == {"linear": 1e-3}
    assert work.settings["clip_range"] == {"linear": 0.2}
    assert (work.settings["n_steps"], work.settings["batch_size"], work.settings["n_epochs"]) == (32, 256, 20)
    assert work.network == {"net_arch": {"pi": [64, 64], "vf": [64, 64]}, "activation_fn": "tanh"}


@pytest.mark.parametrize(
    ("recipe", "override", "named"),
    [
        ("CartPole-v1:a2c", (), "algorithm a2c"),
        ("CartPole-v1:centred", (), "env.wrappers"),
        ("Pendulum-v1:ppo", ("normalize.obs=true",), "normalize"),
        ("LunarLander-v3:ppo", ("ppo.entropy_coef=lin_0.01",), "entropy_coef"),
    ],
)
def test_what_the_peer_cannot_do_is_named(recipe, override, named):
    with pytest.raises(UserError, match=named):
        same_work(resolve(recipe, override).recipe, 1000)


@pytest.mark.slow
@pytest.mark.skipif(not PEERS.exists(), reason="made by make bench")
def test_the_peer_does_the_work():
    found = measure_peer(PEERS, same_work(resolve("CartPole-v1:ppo", ["epochs=1"]).recipe, 2048))
    assert found["steps_per_second"] > 0


def test_the_table_shows_medians_and_dashes():
    mine = [{"steps_per_second": speed, "peak_mb": 300.0} for speed in (10.0, 30.0, 20.0)]
    assert median_of(mine, "steps_per_second") == 20.0
    assert median_of(mine, "exit_seconds") is None
    row = format_speeds({"gymlab": mine})[1]
    assert "20 [10, 30]" in row
    assert row.split()[-1] == "300"
    assert "-" in row.split()
