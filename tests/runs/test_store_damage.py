"""One flipped bit or a cut-off end anywhere in a checkpoint is noticed, and the one before it is used."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from gymlab.core.errors import RunError
from gymlab.runs.checkpoints import Damaged, load_checkpoint, load_policy, save_checkpoint
from gymlab.runs.paths import RunPaths

pytestmark = pytest.mark.fast

FLIPS, CUTS = 300, 100


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    paths = RunPaths(tmp_path / "run")
    paths.root.mkdir()
    rng = np.random.default_rng(0)
    for step in (100, 200):
        policy = {"w": rng.normal(size=(17, 3)).astype(np.float32), "step": np.array(step)}
        state = {"m": rng.normal(size=40), "flag": rng.random(5) < 0.5}
        info = {"best": 1e-05, "eval": {"mean": -1.5e22, "n": 20}, "key": "E", "none": None}
        save_checkpoint(paths, step=step, policy=policy, state=state, info=info, kinds={"periodic"}, keep=3)
    return paths


def damaged(data: bytes, rng: random.Random, *, cut: bool) -> bytes:
    if cut:
        return data[: rng.randrange(len(data))]
    place = rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << rng.randrange(8))]) + data[place + 1 :]


@pytest.mark.parametrize(("trials", "cut"), [(FLIPS, False), (CUTS, True)])
def test_every_damage_is_noticed_and_the_previous_checkpoint_is_used(paths: RunPaths, trials: int, cut: bool) -> None:
    rng = random.Random(7)
    folder = paths.checkpoints / "200"
    files = sorted(folder.iterdir())
    sound = load_checkpoint(paths, "100")
    for trial in range(trials):
        victim = files[trial % len(files)]
        original = victim.read_bytes()
        victim.write_bytes(damaged(original, rng, cut=cut))
        loaded = load_checkpoint(paths)
        assert loaded.step == 100, (victim.name, trial)
        assert loaded.notes[0].startswith("checkpoint 200 is damaged")
        assert loaded.policy["w"].tobytes() == sound.policy["w"].tobytes()
        assert loaded.state["m"].tobytes() == sound.state["m"].tobytes()
        with pytest.raises(Damaged):
            load_checkpoint(paths, "200")
        if victim.name != "state.safetensors":
            with pytest.raises(Damaged):
                load_policy(folder)
        victim.write_bytes(original)
    assert load_checkpoint(paths).step == 200


def test_a_damaged_index_changes_nothing(paths: RunPaths) -> None:
    rng = random.Random(8)
    original = paths.checkpoint_index.read_bytes()
    for trial in range(60):
        paths.checkpoint_index.write_bytes(damaged(original, rng, cut=trial % 2 == 0))
        assert load_checkpoint(paths).step == 200
        assert load_checkpoint(paths, "best").step == 200


def test_a_swapped_or_missing_file_is_noticed(paths: RunPaths) -> None:
    older, newer = paths.checkpoints / "100", paths.checkpoints / "200"
    for name in ("policy.safetensors", "state.safetensors", "checkpoint.json"):
        original = (newer / name).read_bytes()
        (newer / name).write_bytes((older / name).read_bytes())
        assert load_checkpoint(paths).step == 100
        (newer / name).unlink()
        assert load_checkpoint(paths).step == 100
        (newer / name).write_bytes(original)
    for folder in (older, newer):
        for file in folder.iterdir():
            file.write_bytes(b"")
    with pytest.raises(RunError, match=r"checkpoint 200 is damaged.*checkpoint 100 is damaged"):
        load_checkpoint(paths)
