"""Manifests and fingerprints."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gymlab.runs.manifest import build_manifest, compare_fingerprint, fingerprint, git_state, versions


def example(**changes: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "command": ["gymlab", "train", "CartPole-v1"],
        "seed": 3,
        "recipe": "CartPole-v1:ppo",
        "env": {"id": "CartPole-v1", "max_episode_steps": 500},
        "engine": {"choice": "jax", "reason": "auto: a port exists"},
        "references": {"./my_ppo.py": "ab" * 32},
        "fingerprint": fingerprint(device="cpu"),
    }
    return build_manifest(**{**facts, **changes})


def test_a_manifest_tells_how_the_run_came_to_be() -> None:
    manifest = example()
    assert json.loads(json.dumps(manifest)) == manifest
    assert manifest["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {"gymlab", "numpy", "jax", "gymnasium"} <= manifest["versions"].keys()
    assert manifest["platform"]["cores"] >= 1
    assert manifest["created"].endswith("Z")
    assert manifest["references"] == {"./my_ppo.py": "ab" * 32}


def test_secrets_do_not_reach_the_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "c4n4ry-in-the-environment")
    manifest = example(
        command=["gymlab", "train", "--token", "c4n4ry-one", "https://me:c4n4ry-two@host/"],
        env={"id": "E-v0", "kwargs": {"password": "c4n4ry-three", "note": "c4n4ry-in-the-environment"}},
    )
    assert "c4n4ry" not in json.dumps(manifest)


def test_the_same_machine_has_no_differences_even_after_json() -> None:
    assert compare_fingerprint(json.loads(json.dumps(fingerprint(device="cpu"))), fingerprint(device="cpu")) == []


def test_each_difference_is_named() -> None:
    before = fingerprint(device="cpu")
    before["versions"] = {name: version for name, version in before["versions"].items() if name != "mujoco"}
    after = {**before, "cores": before["cores"] + 2, "device": "gpu"}
    after["versions"] = {**before["versions"], "jax": "99.0", "mujoco": "3.0"}
    assert compare_fingerprint(before, after) == [
        f"jax: {versions()['jax']} -> 99.0",
        f"cores: {before['cores']} -> {before['cores'] + 2}",
        "device: cpu -> gpu",
        "mujoco: none -> 3.0",
    ]


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_git_state_is_commit_and_dirty(tmp_path: Path) -> None:
    assert git_state(tmp_path) is None
    settings = {
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }

    def git(*arguments: str) -> str:
        command = ["git", "-c", "init.defaultBranch=main", "-c", "commit.gpgsign=false", *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, check=True, capture_output=True, text=True, env={**os.environ, **settings}
        )
        return done.stdout.strip()

    git("init")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-m", "x")
    assert git_state(tmp_path) == {"commit": git("rev-parse", "HEAD"), "dirty": False}
    (tmp_path / "a").write_text("2")
    state = git_state(tmp_path)
    assert state is not None
    assert state["dirty"] is True
