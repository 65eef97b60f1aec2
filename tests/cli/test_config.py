"""`gymlab config`, through its own commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gymlab.core.errors import UserError
from gymlab.recipes import project_settings
from gymlab.recipes.keys import recipe_file_schema
from gymlab.recipes.resolve import resolve
from tests.recipe_files import write_recipe

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def cli(clean_folder):
    from typer.testing import CliRunner

    from gymlab.cli.config import app

    return lambda *words: CliRunner().invoke(app, list(words))


def test_show_prints_a_recipe_that_loads_again(cli, clean_folder):
    shown = cli("show", "CartPole-v1:a2c", "gamma=0.9")
    assert shown.exit_code == 0
    (clean_folder / "again.yaml").write_text(shown.output)
    assert resolve("again.yaml").recipe == resolve("CartPole-v1:a2c", ["gamma=0.9"]).recipe
    answer = json.loads(cli("show", "CartPole-v1", "--json").output)
    assert (answer["name"], answer["solved_at_source"]) == ("CartPole-v1:ppo", "recipe")


def test_check_goes_through_all_files_and_variants(cli, clean_folder):
    assert "nothing to check" in cli("check").output
    good = write_recipe(clean_folder, "env: {id: CartPole-v1}\nvariants: {ppo: }\n", "recipes/good.yaml")
    assert cli("check").output.strip() == f"ok: {good.relative_to(clean_folder)}"
    write_recipe(clean_folder, "env: {id: CartPole-v1}\nvariants: {ppo: , b: {pop: }}\n", "recipes/bad.yaml")
    answer = cli("check", "--json")
    assert answer.exit_code == 2
    problems = {row["file"]: row["problems"] for row in json.loads(answer.output)["files"]}
    assert problems["recipes/good.yaml"] == []
    assert "recipes/bad.yaml:2: pop: unknown key" in problems["recipes/bad.yaml"][0]
    assert isinstance(cli("check").exception, UserError)


def test_fmt_check_exits_with_1_until_formatted(cli, clean_folder):
    write_recipe(clean_folder, "variants: {ppo: }\nenv: {id: CartPole-v1}\n")
    assert cli("fmt", "--check").exit_code == 1
    assert cli("fmt").exit_code == 0
    assert cli("fmt", "--check").exit_code == 0


def test_schema_and_where_print_json(cli, clean_folder):
    assert json.loads(cli("schema").output) == recipe_file_schema()
    assert {row["key"] for row in json.loads(cli("where", "--json").output)} == set(project_settings.KEYS)
    assert "runs" in cli("where").output


def test_settings_and_formatting_need_neither_jax_nor_gymnasium(clean_folder):
    code = (
        "import sys; import gymlab.recipes.project_settings, gymlab.cli.config, gymlab.cli.init;"
        "print([name for name in ('jax', 'gymnasium', 'pydantic') if name in sys.modules])"
    )
    path = os.environ | {"PYTHONPATH": str(REPOSITORY / "src")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=path)
    assert done.stdout.strip() == "[]"
