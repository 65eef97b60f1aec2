"""Every way of naming a run and a checkpoint."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gymlab.core.errors import UserError
from gymlab.runs import files
from gymlab.runs.paths import RunPaths
from gymlab.runs.registry import Registry, summarize
from gymlab.runs.selection import select_checkpoint, select_run

pytestmark = pytest.mark.fast


def make(root: Path, run_id: str, env: str = "CartPole-v1", best: float | None = None, created: str = "") -> RunPaths:
    paths = RunPaths(root / run_id)
    paths.root.mkdir(parents=True)
    files.write_json(paths.manifest, {"recipe": f"{env}:ppo", "env": {"id": env}, "created": created})
    files.write_json(paths.status, {"status": "finished", "summary": {"score": best}})
    Registry(root).register(summarize(paths))
    return paths


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "runs"
    make(root, "cartpole-1", best=200.0, created="1")
    make(root, "cartpole-2", best=500.0, created="2")
    make(root, "cartpole-3", best=float("nan"), created="3")
    make(root, "pong-1", env="ALE/Pong-v5", best=-3.0, created="4")
    make(root, "pong-10", env="ALE/Pong-v5", created="5")
    (root / "notes").mkdir()
    (root / "cartpole-file").write_text("")
    return root


@pytest.mark.parametrize(
    ("text", "run_id"),
    [
        ("cartpole-2", "cartpole-2"),
        ("pong-1", "pong-1"),  # exact before prefix
        ("@last", "pong-10"),
        ("@best", "pong-1"),  # on the env of the newest run
        ("@best:CartPole-v1", "cartpole-2"),
        ("@best:ALE/Pong-v5", "pong-1"),
        ("runs/cartpole-1", "cartpole-1"),
        ("./runs/cartpole-1/", "cartpole-1"),
        ("runs/../runs/cartpole-1", "cartpole-1"),
    ],
)
def test_a_run_is_found(root: Path, text: str, run_id: str) -> None:
    assert select_run(text, root).run_id == run_id


def test_a_unique_beginning_is_enough(root: Path) -> None:
    make(root, "zebra-20261115")
    assert select_run("z", root).run_id == "zebra-20261115"
    with pytest.raises(UserError, match="beginning of 3 runs: cartpole-3, cartpole-2, cartpole-1"):
        select_run("cartpole", root)


def test_an_explicit_path_may_lie_elsewhere(root: Path, tmp_path: Path) -> None:
    elsewhere = make(tmp_path / "shared", "theirs")
    assert select_run(str(elsewhere.root), root).root == elsewhere.root.resolve()
    assert select_run("shared/theirs", root).run_id == "theirs"
    with pytest.raises(UserError, match="unknown run"):
        select_run("shared/theirs", root, by_path=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cartpol-2", "did you mean 'cartpole-2'"),
        ("@latest", "did you mean '@last'"),
        ("@last:CartPole-v1", "unknown run"),
        ("@best:CartPole-v2", "did you mean 'CartPole-v1'"),
        ("notes", "unknown run"),
        ("", "unknown run"),
        ("runs", "unknown run"),
    ],
)
def test_an_unknown_run_names_the_nearest(root: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        select_run(text, root)


def test_without_runs_it_says_so(tmp_path: Path) -> None:
    for text in ("@last", "@best", "anything"):
        with pytest.raises(UserError, match="there are no runs"):
            select_run(text, tmp_path / "none")
    assert os.listdir(tmp_path) == []


def test_unregistered_runs_are_found_and_removed_ones_are_not(root: Path) -> None:
    paths = make(root, "new-1", created="9")
    Registry(root).remove("new-1")
    assert select_run("@last", root).run_id == "new-1"
    assert select_run("new", root).run_id == "new-1"
    paths.manifest.unlink()
    assert select_run("@last", root).run_id == "pong-10"


@pytest.mark.parametrize(
    ("text", "run_id", "which"),
    [
        ("cartpole-2", "cartpole-2", "best"),
        ("cartpole-2/last", "cartpole-2", "last"),
        ("cartpole-2/@best", "cartpole-2", "best"),
        ("cartpole-2/50000", "cartpole-2", "50000"),
        ("@last/0", "pong-10", "0"),
        ("@best:ALE/Pong-v5", "pong-1", "best"),
        ("@best:ALE/Pong-v5/last", "pong-1", "last"),
        ("runs/cartpole-1/last", "cartpole-1", "last"),
        ("runs/cartpole-1", "cartpole-1", "best"),
        ("runs/cartpole-1/checkpoints/50000", "cartpole-1", "50000"),
        ("runs/cartpole-1/checkpoints/50000/", "cartpole-1", "50000"),
    ],
)
def test_a_checkpoint_is_found(root: Path, text: str, run_id: str, which: str) -> None:
    paths, chosen = select_checkpoint(text, root)
    assert (paths.run_id, chosen) == (run_id, which)


def test_the_default_checkpoint_is_the_callers_choice(root: Path) -> None:
    assert select_checkpoint("@last", root, default="last")[1] == "last"


def test_a_misspelt_checkpoint_is_told_from_a_misspelt_run(root: Path) -> None:
    with pytest.raises(UserError, match="run 'cartpole-2' has no checkpoint 'bets': did you mean 'best'"):
        select_checkpoint("cartpole-2/bets", root)
    with pytest.raises(UserError, match="did you mean 'cartpole-2'"):
        select_checkpoint("cartpol-2/best", root)
