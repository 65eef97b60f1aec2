"""The data sheet of every env that ships with a recipe: labels for what it takes and gives, bounds, links."""

import json

import gymnasium
import pytest

from gymlab.envs.card import env_card, label_count
from gymlab.envs.make import make_env
from gymlab.envs.registry import missing_extra
from gymlab.envs.settings import EnvSettings
from gymlab.recipes.resolve import packaged_files
from tests.recipe_files import plain

pytestmark = pytest.mark.fast

OURS = [path for path in packaged_files() if not path.stem.startswith(("ALE", "MinAtar", "Viz", "Retro"))]


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.stem)
def test_every_recipe_labels_its_actions_and_observations(path):
    settings = EnvSettings.model_validate(plain(path.read_text())["env"])
    extra = missing_extra(gymnasium.spec(settings.id))
    if extra is not None:
        pytest.skip(f"needs gymlab[{extra}]")
    env = make_env(settings)
    assert len(settings.actions) == label_count(env.action_space, actions=True)
    assert len(settings.observations) == label_count(env.observation_space, actions=False)
    env.close()
    told = env_card(settings)
    assert [row["label"] for row in told["actions"]] == list(settings.actions)
    assert [row["label"] for row in told["observations"]] == list(settings.observations)
    assert told["links"] or settings.id.startswith("Bandit")


def test_a_sheet_tells_bounds_and_limits(cli):
    told = json.loads(cli("envs", "show", "LunarLander-v3", "--json").out)
    assert told["max_episode_steps"] == 1000
    assert told["actions"][2] == {"label": "main engine", "kind": "choice 2"}
    assert told["observations"][4] == {"label": "angle", "kind": "number", "low": -6.283185, "high": 6.283185}
    assert "randomized" in told["variants"]
    shown = cli("envs", "show", "CartPole-v1")
    assert "number     cart velocity              none to none" in shown.out
    assert "gymlab train CartPole-v1:centred" in shown.out


def test_an_env_without_labels_has_a_sheet_too(cli):
    shown = cli("envs", "show", "tests.example_envs:Custom-v0")
    assert shown.code == 0
    assert "choice" in shown.out
    assert cli("envs", "show", "CartPole-v9").code == 2
