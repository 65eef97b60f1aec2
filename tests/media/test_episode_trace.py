"""Episode traces: their returns follow training's definitions, and every reader sees the same rows."""

import numpy as np
import pytest

from gymlab.core.rng import episode_seed
from gymlab.media.episode_trace import COLUMNS, TraceRow, action_label, read_csv, to_csv, to_record
from gymlab.media.policy_player import EpisodeOptions, open_player
from gymlab.recipes.resolve import read_run_recipe
from gymlab.runs.checkpoints import load_checkpoint
from gymlab.runs.videos import best_clip, scan, table_path


@pytest.fixture(scope="module")
def player(solved_run):
    player = open_player(read_run_recipe(solved_run.recipe))
    yield player
    player.close()


@pytest.fixture(scope="module")
def policy(solved_run, player):
    return player.policy(load_checkpoint(solved_run, "best", with_state=False).policy)


def test_csv_beside_a_checkpoint_equals_the_exported_table(solved_run, cli, monkeypatch):
    monkeypatch.setenv("GYMLAB_RUNS", str(solved_run.root.parent))
    best = best_clip(solved_run)
    done = cli("export", "solved", "--table", "table.csv")
    assert done.code == 0, done.err
    assert (cli.folder / "table.csv").read_bytes() == table_path(solved_run, best.env_steps).read_bytes()


@pytest.mark.parametrize("kind", ["first", "best"])  # one ends by falling, the other at the time limit
def test_returns_and_advantages_follow_from_rewards_and_values(solved_run, player, kind):
    clip = [clip for clip in scan(solved_run) if kind in clip.kinds][-1]
    rows = read_csv(table_path(solved_run, clip.env_steps))
    gamma, lam = player.return_settings.gamma, player.return_settings.lam
    assert (gamma, lam) == pytest.approx((0.98, 0.8))
    fell = clip.about["ended"] == "terminated"
    assert fell == (kind == "first")
    values = [row["value"] for row in rows]
    to_go, gae = [None] * len(rows), [None] * len(rows)
    for t in reversed(range(len(rows))):
        reward = rows[t]["reward"]
        if t == len(rows) - 1:
            # The last step has no row after it; where the episode was cut its successor's value is in return_to_go.
            to_go[t] = 1.0 if fell else rows[t]["return_to_go"]
            gae[t] = to_go[t] - values[t]
        else:
            to_go[t] = reward + gamma * to_go[t + 1]
            gae[t] = reward + gamma * values[t + 1] - values[t] + gamma * lam * gae[t + 1]
    assert [row["return_to_go"] for row in rows] == pytest.approx(to_go, rel=1e-4)
    assert [row["gae"] for row in rows] == pytest.approx(gae, abs=1e-3)
    assert [row["advantage"] for row in rows] == pytest.approx(np.subtract(to_go, values), abs=1e-3)
    assert [row["return_so_far"] for row in rows] == [float(t + 1) for t in range(len(rows))]
    assert clip.about["return"] == rows[-1]["return_so_far"] == clip.about["length"]
    for row in rows:
        assert row["baseline"] == row["value"]
        assert row["frame"] == row["step"] // clip.about["stride"]
        assert row["label"] == ("left", "right")[row["action"]]
        assert row["probability"] == pytest.approx(row["probabilities"][row["action"]], rel=1e-5)
        assert row["action"] == int(np.argmax(row["probabilities"]))  # greedy


def test_the_same_seed_gives_the_same_episode_and_another_seed_a_different_one(player, policy):
    tables = [to_csv(player.play(policy, EpisodeOptions(seed, max_steps=20)).rows) for seed in (0, 0, 1)]
    assert tables[0] == tables[1] != tables[2]
    sampled = player.play(policy, EpisodeOptions(0, greedy=False, max_steps=20))
    assert sampled.ended == "cut"
    assert len(sampled.rows) == 20


def test_the_episode_is_that_of_the_evaluation_seed(solved_run, player):
    first = next(clip for clip in scan(solved_run) if clip.env_steps == 0)
    seed = episode_seed(0, 0, 0, evaluation=True)
    assert first.about["episode_seed"] == seed
    start, _ = player.env.reset(seed=seed)
    table = read_csv(table_path(solved_run, 0))
    assert table[0]["observation"] == pytest.approx(start.tolist())


def test_csv_names_large_observations_and_leaves_unknown_numbers_empty():
    picture = np.zeros((84, 84, 4), np.uint8)
    nan = float("nan")
    row = TraceRow(0, 0, picture, np.array(3), "fire", 0.5, 1.0, 1.0, 1.0, nan, nan, nan, nan, ())
    head, line, _ = to_csv([row]).split("\n")
    assert head.split(",") == list(COLUMNS)
    assert '"uint8[84,84,4] ' in line
    assert "1.0,1.0,1.0,,,,,[],{},,,,,,,{},false,false," in line
    assert to_record(row)["value"] is None


def test_discrete_actions_are_labelled_by_name():
    assert action_label(np.array(1), ("left", "right")) == "right"
    assert action_label(np.array(7), ("left", "right")) == "7"
    assert action_label(np.array([0.25, -1.0], np.float32), ()) == "0.25 -1"
