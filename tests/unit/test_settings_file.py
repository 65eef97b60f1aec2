"""gymlab.toml: what wins, where it came from, and what a broken one says."""

from __future__ import annotations

from pathlib import Path

import pytest

from gymlab.core.errors import UserError
from gymlab.recipes import settings_file
from gymlab.recipes.load import resolve
from tests.recipe_files import write_recipe


def test_settings_come_from_the_variable_the_project_the_user_and_the_default(clean_folder, monkeypatch):
    assert settings_file.runs_folder() == Path("runs")
    user = clean_folder / "home/.config/gymlab/gymlab.toml"
    user.parent.mkdir(parents=True)
    user.write_text('runs = "all"\nimports = ["json"]\n')
    assert settings_file.runs_folder() == user.parent / "all"
    (clean_folder / "gymlab.toml").write_text('runs = "out"\nrecipe_folders = ["shared"]\n')
    assert settings_file.runs_folder() == Path("out")
    assert settings_file.imports() == ("json",)
    monkeypatch.setenv("GYMLAB_RUNS", "elsewhere")
    monkeypatch.setenv("GYMLAB_CACHE", str(clean_folder / "cache"))
    sources = {setting.key: setting.source for setting in settings_file.where()}
    assert sources["runs"] == "$GYMLAB_RUNS"
    assert sources["recipe_folders"] == "gymlab.toml"
    assert sources["imports"] == str(user)
    assert settings_file.cache_folder() == clean_folder / "cache"


def test_further_recipe_folders_are_looked_up(clean_folder):
    (clean_folder / "gymlab.toml").write_text('recipe_folders = ["shared"]\nimports = ["json"]\n')
    write_recipe(clean_folder, "env: {id: CartPole-v1}\nvariants: {team: {ppo: {}}}\n", "shared/team.yaml")
    recipe = resolve("CartPole-v1:team").recipe
    assert recipe.name == "CartPole-v1:team"
    assert recipe.imports == ("json",)


def test_a_users_file_can_be_named_by_a_variable(clean_folder, monkeypatch):
    monkeypatch.setenv("GYMLAB_CONFIG", str(clean_folder / "my.toml"))
    with pytest.raises(UserError, match="GYMLAB_CONFIG"):
        settings_file.where()
    (clean_folder / "my.toml").write_text('cache = "c"\n')
    assert settings_file.cache_folder() == clean_folder / "c"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('imports = []\nrns = "x"\n', r"gymlab\.toml:2: rns: unknown key: did you mean 'runs'"),
        ("runs = 3\n", r"gymlab\.toml:1: runs: expected a path, got 3"),
        ('imports = "json"\n', r"gymlab\.toml:1: imports: expected a list"),
        ("[wandb]\nproject = 'x'\n", r"gymlab\.toml:1: wandb: unknown key"),
        ("runs = \n", r"gymlab\.toml: not valid TOML"),
    ],
)
def test_a_broken_settings_file_says_what_is_wrong(text, says, clean_folder):
    (clean_folder / "gymlab.toml").write_text(text)
    with pytest.raises(UserError, match=says):
        settings_file.runs_folder()
