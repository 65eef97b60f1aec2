"""A plan says what to train; what is wrong with it is told with its place."""

from pathlib import Path

import pytest

from gymlab.campaigns.benchmark_table.plan import FILE, parse_seeds, read_plan, select_rows
from gymlab.campaigns.benchmark_table.table import seed_row
from gymlab.core.errors import UserError
from tests.running import ROOT

pytestmark = pytest.mark.fast


def plan(folder, text):
    (folder / FILE).write_text(text, encoding="utf-8")
    return read_plan(folder / FILE)


@pytest.mark.parametrize(
    ("written", "seeds"), [(3, (0, 1, 2)), ("2..4", (2, 3, 4)), ([1, 7, 1], (1, 7)), ("1", (0,)), ([0], (0,))]
)
def test_seeds_are_a_number_a_range_or_a_list(written, seeds):
    assert parse_seeds(written) == seeds


@pytest.mark.parametrize("written", [0, -1, "a..b", "4..2", "0..99999", True, 1.5, None])
def test_other_seeds_are_refused(written):
    with pytest.raises(ValueError, match="expected a number of seeds"):
        parse_seeds(written)


def test_rows_take_what_they_do_not_say_from_the_plan(tmp_path):
    second = "{recipe: A:ppo, set: [x=1], seeds: 1, full_budget: false}"
    text = f"seeds: 2\nepisodes: 7\nrows:\n  - {{recipe: A:ppo}}\n  - {second}\n"
    first, second = plan(tmp_path, text)
    assert (first.seeds, first.episodes, first.full_budget) == ((0, 1), 7, True)
    assert (second.seeds, second.episodes, second.full_budget) == ((0,), 7, False)
    assert (first.title, second.title, second.slug) == ("A:ppo", "A:ppo x=1", "A-ppo-x=1")


def test_every_problem_of_a_plan_is_told_at_once_with_its_line(tmp_path):
    text = "seeds: none\nrows:\n  - {recipe: A:ppo, mrk: 3}\n  - {mark: 1}\n"
    with pytest.raises(UserError) as told:
        plan(tmp_path, text)
    lines = str(told.value).splitlines()
    assert len(lines) == 3
    assert [line for line in lines if f"{FILE}:1: seeds" in line]
    assert [line for line in lines if f"{FILE}:3: rows[0].mrk: unknown key" in line]
    assert [line for line in lines if f"{FILE}:4: rows[1].recipe: missing" in line]


def test_two_rows_of_one_name_are_refused_and_so_is_a_plan_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match="is there twice"):
        plan(tmp_path, "rows:\n  - {recipe: A:ppo}\n  - {recipe: A:ppo}\n")
    with pytest.raises(UserError, match="there is no plan"):
        read_plan(Path("nowhere.yaml"))


def test_rows_are_named_by_title_recipe_or_env(tmp_path):
    rows = plan(
        tmp_path,
        "rows:\n  - {recipe: A:ppo}\n  - {recipe: A:ppo, set: [x=1]}\n  - {recipe: A:a2c}\n  - {recipe: B:ppo}\n",
    )
    assert [row.title for row in select_rows(rows, ["A"])] == ["A:ppo", "A:ppo x=1", "A:a2c"]
    assert [row.title for row in select_rows(rows, ["A:ppo"])] == ["A:ppo"]
    assert select_rows(rows, []) == rows
    with pytest.raises(UserError, match="did you mean 'B:ppo'"):
        select_rows(rows, ["B:pp"])


def test_the_plan_of_this_repository_can_be_run():
    rows = read_plan(ROOT / "results" / FILE)
    needs = ("ALE/", "MinAtar/", "HalfCheetah", "BipedalWalker", "LunarLander")  # extras
    for row in rows:
        if not row.recipe.startswith(needs):
            found = seed_row(row)
            assert [trial.seed for trial in found] == list(row.seeds)
            assert row.episodes >= 100
