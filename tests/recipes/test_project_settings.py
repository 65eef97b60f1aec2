"""gymlab.toml: what wins, where it came from, and what a broken one says."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from gymlab.core.errors import UserError
from gymlab.recipes import project_settings
from gymlab.recipes.project_settings import write_override
from gymlab.recipes.resolve import resolve
from tests.recipe_files import write_recipe


def test_settings_come_from_the_variable_the_project_the_user_and_the_default(clean_folder, monkeypatch):
    assert project_settings.runs_folder() == Path("runs")
    user = clean_folder / "home/.config/gymlab/gymlab.toml"
    user.parent.mkdir(parents=True)
    user.write_text('runs = "all"\nimports = ["json"]\n')
    assert project_settings.runs_folder() == user.parent / "all"
    (clean_folder / "gymlab.toml").write_text('runs = "out"\nrecipe_folders = ["shared"]\n')
    assert project_settings.runs_folder() == Path("out")
    assert project_settings.imports() == ("json",)
    monkeypatch.setenv("GYMLAB_RUNS", "elsewhere")
    monkeypatch.setenv("GYMLAB_CACHE", str(clean_folder / "cache"))
    sources = {setting.key: setting.source for setting in project_settings.all_settings()}
    assert sources["runs"] == "$GYMLAB_RUNS"
    assert sources["recipe_folders"] == "gymlab.toml"
    assert sources["imports"] == str(user)
    assert project_settings.cache_folder() == clean_folder / "cache"


def test_further_recipe_folders_are_looked_up(clean_folder):
    (clean_folder / "gymlab.toml").write_text('recipe_folders = ["shared"]\nimports = ["json"]\n')
    write_recipe(clean_folder, "env: {id: CartPole-v1}\nvariants: {team: {ppo: {}}}\n", "shared/team.yaml")
    recipe = resolve("CartPole-v1:team").recipe
    assert recipe.name == "CartPole-v1:team"
    assert recipe.imports == ("json",)


def test_a_users_file_can_be_named_by_a_variable(clean_folder, monkeypatch):
    monkeypatch.setenv("GYMLAB_CONFIG", str(clean_folder / "my.toml"))
    with pytest.raises(UserError, match="GYMLAB_CONFIG"):
        project_settings.all_settings()
    (clean_folder / "my.toml").write_text('cache = "c"\n')
    assert project_settings.cache_folder() == clean_folder / "c"


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
        project_settings.runs_folder()


def test_overrides_apply_between_the_recipe_and_the_command_line_and_are_told(clean_folder):
    user = clean_folder / "home/.config/gymlab/gymlab.toml"
    user.parent.mkdir(parents=True)
    user.write_text('[overrides]\n"CartPole-v1" = ["n_envs=16", "epochs=3"]\n"*:a2c" = ["n_envs=2"]\n')
    (clean_folder / "gymlab.toml").write_text('[overrides]\n"CartPole-*:ppo" = ["n_envs=32"]\n')
    found = resolve("CartPole-v1:ppo")
    assert (found.recipe.n_envs, found.recipe.algorithm.settings.epochs) == (32, 3)  # the project's beat the user's
    assert found.notes == [f"from {user}: n_envs=16 epochs=3", "from gymlab.toml: n_envs=32"]
    typed = resolve("CartPole-v1:ppo", ["n_envs=64"])
    assert typed.recipe.n_envs == 64
    assert typed.notes == [f"from {user}: epochs=3"]
    assert resolve("Pendulum-v1:a2c").recipe.n_envs == 2
    assert resolve("Pendulum-v1:ppo").notes == []


def test_config_where_lists_the_overrides_of_each_file(clean_folder):
    (clean_folder / "gymlab.toml").write_text('[overrides]\n"CartPole-v1" = ["n_envs=16"]\n')
    assert project_settings.all_settings()[-1] == ("overrides", {"CartPole-v1": ["n_envs=16"]}, "gymlab.toml")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[overrides]\n"CartPole-v1" = "n_envs=16"\n', r"gymlab\.toml:1: overrides: expected"),
        ('overrides = ["n_envs=16"]\n', r"gymlab\.toml:1: overrides: expected"),
        ('[overrides]\n\n"CartPole-v1" = ["n_env=16"]\n', r"gymlab\.toml:3: n_env: unknown key: did you mean 'n_envs'"),
        ('[overrides]\n"Cart*" = ["n_envs"]\n', r"gymlab\.toml:2: expected key=value, got 'n_envs'"),
        ('[overrides]\n"*" = ["n_envs=0"]\n', r"gymlab\.toml:2: n_envs: must be at least 1, got 0"),
    ],
)
def test_a_broken_override_is_told_with_its_line(text, says, clean_folder):
    (clean_folder / "gymlab.toml").write_text(text)
    with pytest.raises(UserError, match=says):
        resolve("CartPole-v1:ppo")


@pytest.mark.parametrize(
    "before",
    [
        "",
        "# mine\nimports = []",
        '[overrides]\n"X-v0" = ["n_envs=1"] # keep\n',
        '[overrides]\n"CartPole-v1:ppo" = [\n  "n_envs=2",\n]\n"X-v0" = ["n_envs=1"]\n',
        'runs = "out"\n[overrides]',
    ],
)
def test_an_override_is_written_beside_what_was_there(before, clean_folder):
    path = clean_folder / "new/gymlab.toml"
    if before:
        path.parent.mkdir()
        path.write_text(before)
    write_override(path, "CartPole-v1:ppo", ["n_envs=32", "engine=jax"])
    write_override(path, "CartPole-v1:ppo", ["n_envs=16", "engine=jax"])
    after = path.read_text()
    assert after.count("CartPole") == 1
    expected = tomllib.loads(before)
    expected["overrides"] = {**expected.get("overrides", {}), "CartPole-v1:ppo": ["n_envs=16", "engine=jax"]}
    assert tomllib.loads(after) == expected
    assert all(line in after for line in before.splitlines() if line.startswith(("#", '"X')))


def test_a_file_that_cannot_be_edited_is_left_alone(clean_folder):
    path = clean_folder / "gymlab.toml"
    path.write_text('overrides = {"X-v0" = ["n_envs=1"]}\n')
    with pytest.raises(UserError, match="add by hand"):
        write_override(path, "CartPole-v1:ppo", ["n_envs=32"])
    assert path.read_text() == 'overrides = {"X-v0" = ["n_envs=1"]}\n'
