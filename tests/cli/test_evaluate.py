"""`gymlab eval`: the same exam for several checkpoints, seeds and runs, with how sure its results are."""

import json

import numpy as np
import pytest

from gymlab.runs.metrics_reader import MetricsReader
from gymlab.runs.paths import RunPaths
from tests.running import gymlab

TINY = ["n_envs=8", "n_steps=32", "batch_size=128", "policy.hidden=[16]", "metrics.statistics=basic"]
SHORT = ["--budget", "6k", "eval.every=50%", "eval.episodes=4", "eval.final_episodes=4", "checkpoints.every=25%"]


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lake")
    gymlab("train", "FrozenLake-v1:ppo", *TINY, *SHORT, "--run-id", "lake", "--full-budget", "-q", cwd=folder,
           GYMLAB_RUNS=str(folder / "runs"))  # fmt: skip
    return folder / "runs"


@pytest.fixture
def told(lake, cli, monkeypatch):
    """Evaluate and read what is told as JSON."""
    monkeypatch.setenv("GYMLAB_RUNS", str(lake))

    def tell(*arguments):
        done = cli("eval", *arguments, "--json")
        assert done.code == 0, done.err
        return json.loads(done.out)

    return tell


def test_several_seeds_are_pooled_and_their_episodes_listed(told):
    one, two = (told("lake/last", "--episodes", "20", "--seed", seed) for seed in (3, 4))
    both = told("lake/last", "--episodes", "20", "--seeds", "3..4")
    assert both["seeds"] == [3, 4]
    for way in ("greedy", "sampled"):
        means = [one["eval"][way]["mean"], two["eval"][way]["mean"]]
        assert both["eval"][way]["by_seed"] == means
        assert both["eval"][way]["mean"] == pytest.approx(np.mean(means))
        assert both["eval"][way]["n"] == 40
        assert both["eval"][way]["low"] <= both["eval"][way]["mean"] <= both["eval"][way]["high"]
        assert both["episode_seeds"][way] == [*one["episode_seeds"][way], *two["episode_seeds"][way]]
        assert all(seed >= 1 << 30 for seeds in both["episode_seeds"][way] for seed in seeds)  # training's are below
        assert [len(set(seeds)) for seeds in both["episode_seeds"][way]] == [20, 20]


def test_the_true_value_of_a_table_lies_where_the_episodes_say(told):
    found = told("lake", "--episodes", "1000", "--greedy")["eval"]
    assert found.keys() == {"greedy", "exact"}
    error = found["greedy"]["std"] / np.sqrt(1000)
    assert abs(found["greedy"]["mean"] - found["exact"]) <= max(4 * error, 1e-9)


def test_checkpoints_stand_side_by_side_and_each_once(told, cli):
    found = told("lake", "--checkpoint", "all,last,first", "--episodes", "2", "--sampled")["evaluations"]
    steps = [int(scored["checkpoint"]) for scored in found]
    assert steps == sorted(set(steps))
    assert len(steps) >= 3
    assert "last" in found[-1]["roles"]
    assert [list(scored["eval"]) for scored in found] == [["sampled"]] * len(steps)
    page = cli("eval", "lake", "--checkpoint", "first,last", "--episodes", "2").out.splitlines()
    assert [line.split()[1] for line in page[1:7]] == [str(steps[0])] * 3 + [str(steps[-1])] * 3  # two ways, and exact
    assert "95 % of mean" in page[0]
    assert page[-1] == "next: gymlab play lake"


def test_on_the_runs_own_seed_it_gives_the_runs_own_numbers(told, lake):
    with MetricsReader(RunPaths(lake / "lake").metrics) as reader:
        rows = reader.read(
            ["env_steps", "eval/greedy_mean", "eval/sampled_mean", "eval/sampled_low", "eval/sampled_iqm"]
        )
    at = int(np.flatnonzero(~np.isnan(rows["eval/greedy_mean"]))[0])
    again = told(f"lake/{int(rows['env_steps'][at])}", "--episodes", "4", "--seed", "0")["eval"]
    assert again["greedy"]["mean"] == rows["eval/greedy_mean"][at]
    assert (again["sampled"]["mean"], again["sampled"]["iqm"]) == (
        rows["eval/sampled_mean"][at],
        rows["eval/sampled_iqm"][at],
    )
    assert rows["eval/sampled_low"][at] <= again["sampled"]["mean"]


def test_a_run_named_twice_gives_one_table(told):
    found = told("lake/last", "lake/best", "lake/last", "--episodes", "2")
    assert len(found.get("evaluations", [found])) <= 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lake", "--seeds", "4..1"], "'4..1' is no seed and no range"),
        (["lake", "--seeds", "one"], "write 0..4, or 1,5,9"),
        (["lake", "--seeds", "0..9999"], "more than 1000 seeds"),
        (["lake", "--seeds", "1", "--seed", "1"], "give one of them"),
        (["lake", "--checkpoint", "lst"], "did you mean 'last'?"),
        (["lke"], "did you mean 'lake'?"),
    ],
)
def test_mistakes_are_told(arguments, message, told, cli):
    done = cli("eval", *arguments)
    assert done.code == 2
    assert message in done.err
