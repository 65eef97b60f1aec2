"""The best trial as a recipe."""

import json

import pytest

from gymlab.campaigns.executors.protocol import RunFinished
from gymlab.campaigns.run_spec import RunSpec
from gymlab.campaigns.sweep.best import write_variant
from gymlab.core.errors import UserError
from gymlab.recipes.resolve import resolve
from gymlab.recipes.write import dump_recipe

pytestmark = pytest.mark.fast


def test_a_variant_extends_its_recipe_and_says_where_it_is_from(folder):
    changes = ["ppo.learning_rate=2e-3", "n_steps=64"]
    path = write_variant("CartPole-v1:ppo", changes, "tuned", ["sweep x, trial 3: 480 [470, 490]"])
    text = path.read_text()
    assert "# sweep x, trial 3: 480 [470, 490]" in text
    assert "extends: ppo" in text
    recipe = resolve("CartPole-v1:tuned").recipe
    assert recipe.algorithm.settings.learning_rate.source == 2e-3
    assert (recipe.n_steps, recipe.env.solved_at) == (64, 475)
    assert recipe.algorithm.settings.epochs == resolve("CartPole-v1:ppo").recipe.algorithm.settings.epochs


def test_a_recipe_from_a_file_elsewhere_is_written_out_whole(folder):
    (folder / "mine.yaml").write_text("env: {id: CartPole-v1}\nvariants:\n  odd: {n_envs: 3, n_steps: 64, ppo: {}}\n")
    path = write_variant("mine.yaml:odd", ["ppo.epochs=3"], "odd-tuned", [])
    found = resolve(f"{path}:odd-tuned").recipe
    assert (found.n_envs, found.algorithm.settings.epochs) == (3, 3)


def test_a_file_is_not_overwritten_unasked(folder):
    write_variant("CartPole-v1:ppo", ["n_steps=64"], "tuned", [])
    with pytest.raises(UserError, match="exists already"):
        write_variant("CartPole-v1:ppo", ["n_steps=128"], "tuned", [])
    write_variant("CartPole-v1:ppo", ["n_steps=128"], "tuned", [], force=True)
    assert resolve("CartPole-v1:tuned").recipe.n_steps == 128


def test_an_algorithms_name_is_no_variants(folder):
    with pytest.raises(UserError, match="--as 'ppo'"):
        write_variant("CartPole-v1:ppo", [], "ppo", [])


@pytest.mark.slow
def test_the_best_trial_trains_from_its_file_and_is_drawn(cli, pools):
    from tests.campaigns.sweeping import here

    told = here(cli.folder / "runs", pools[2], trials=5, budget="128", name="b", method="random")
    best = json.loads(cli("sweep", "best", "b", "--as", "found", "--json").out)
    assert best["overrides"] == told["best"]["overrides"]
    assert best["written"] == "recipes/CartPole-v1-found.yaml"
    text = dump_recipe(resolve("CartPole-v1:found").recipe)
    pools[2].submit(RunSpec(0, str(cli.folder / "runs"), "found", 0, text, full_budget=True))
    trained = list(pools[2].reports())[-1]
    assert isinstance(trained, RunFinished)
    assert trained.result["eval"]["greedy"]["mean"] == pytest.approx(told["best"]["value"], abs=1e-9)
    drawn = json.loads(cli("sweep", "plot", "b", "-o", "b.png", "--json").out)
    assert (cli.folder / "b.png").read_bytes().startswith(b"\x89PNG")
    assert set(drawn["importances"]) <= {"ppo.learning_rate"}
