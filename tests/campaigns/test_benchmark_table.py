"""Lines of the table against numbers worked out by hand."""

import pytest

from gymlab.campaigns.benchmark_table.page import PAGE, format_page
from gymlab.campaigns.benchmark_table.plan import FILE, BenchmarkRow, read_plan
from gymlab.campaigns.benchmark_table.record import read_record, write_record
from gymlab.campaigns.benchmark_table.table import (
    BenchmarkResult,
    format_cells,
    read_result,
    record_path,
    result_json,
    seed_row,
)
from tests.campaigns.records import record
from tests.running import ROOT

pytestmark = pytest.mark.fast

ROW = BenchmarkRow(recipe="CartPole-v1:ppo", mark=490, seeds=5, episodes=100, full_budget=True)


def line(scores, **more):
    records = tuple(record(score, seed=seed, steps=10 * (seed + 1)) for seed, score in enumerate(scores))
    return BenchmarkResult(ROW, records, more.get("missing", ()), more.get("stale", {}))


def test_a_line_takes_the_middle_of_its_seeds_and_tells_whether_the_mark_is_reached():
    found = line([500, 500, 490, 480, 100])
    assert found.score.value == 490  # 100 and one 500 are cut
    assert found.score.low < 490 <= found.score.high
    assert found.reached is True
    assert found.solved == 0.8  # 475 is the env's threshold
    assert found.steps_to_threshold == (30, 5)
    assert line([489.9] * 5).reached is False
    assert line([500] * 4, missing=(4,)).reached is None
    assert line([500] * 4, missing=(4,)).verdict == "4 of 5 seeds"
    assert line([500] * 5, stale={1: ["n_envs: 8 -> 16"]}).verdict == "stale (1 of 5 seeds)"
    assert line([]).verdict == "not run"
    assert format_cells(found)[:3] == ("CartPole-v1:ppo", "490", str(found.score))


def test_one_seed_has_no_interval():
    alone = line([480.0])
    assert format_cells(alone)[2] == "480 (1 seed)"
    assert result_json(alone)["score"] == {"iqm": 480.0, "low": None, "high": None}


def test_an_exact_score_takes_the_place_of_the_greedy_one():
    exact = BenchmarkResult(ROW, tuple(record(499.0, seed=seed, exact=480.0) for seed in range(5)), (), {})
    assert exact.score.value == 480
    assert exact.reached is False
    assert result_json(exact)["judged"] == "exact"
    sampled = exact._replace(row=ROW.model_copy(update={"judged": "sampled"}))
    assert sampled.score.value == 498
    mixed = exact._replace(records=(*exact.records, record(1.0)))
    assert mixed.score_by("exact") is None


def test_results_are_read_back_and_those_of_another_recipe_are_stale(tmp_path):
    settings = dict(seed_row(ROW)[0].settings)
    for seed in (0, 1):
        write_record(record_path(tmp_path, ROW, seed), record(500, seed=seed, settings=settings))
    write_record(record_path(tmp_path, ROW, 2), record(9, seed=2, settings={**settings, "n_envs": 4}))
    record_path(tmp_path, ROW, 3).write_text("{not json")
    found = read_result(tmp_path, ROW)
    assert [r.seed for r in found.records] == [0, 1]  # the stale one does not count while there are others
    assert found.missing == (3, 4)  # a damaged file is no result
    assert found.stale == {2: ["n_envs: 4 -> 8"]}
    assert read_record(record_path(tmp_path, ROW, 0)).settings == settings


def test_the_page_shows_the_command_the_commit_and_the_sources():
    text = format_page([line([500.0] * 5), BenchmarkResult(ROW.model_copy(update={"name": "other"}), (), (0,), {})])
    assert "| [CartPole-v1:ppo](#cartpole-v1ppo) | 490 | 500 [500, 500] |" in text
    assert "gymlab train CartPole-v1:ppo --seed N" in text
    assert "`abc`" in text
    assert "RL-Zoo3 ppo 500 ± 0 at 100k" in text
    assert "| other | 490 | - |" in text
    assert text.count("benchmark.md") == 1


def test_the_page_of_this_repository_is_what_its_results_say():
    rows = read_plan(ROOT / "results" / FILE)
    written = (ROOT / PAGE).read_text(encoding="utf-8")
    assert format_page([read_result(ROOT / "results", row) for row in rows]) == written, "gymlab results show --write"


def test_a_picture_of_a_row_is_small():
    pytest.importorskip("matplotlib")
    from gymlab.campaigns.benchmark_table.page import draw_learning_curves, iqm_curve

    records = [record(1, seed=seed, curve=((0, 0.0), (100, 10.0 * seed))) for seed in range(5)]
    assert iqm_curve(records)[1][-1] == 20  # of 0 10 20 30 40 the middle three
    drawn = draw_learning_curves(records, "A_b:c", 3.0)
    assert drawn.startswith(b"\x89PNG")
    assert len(drawn) < 40_000
