"""Checkpoints: layout, exact arrays, retention, and what is told when something is wrong."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gymlab.core.errors import RunError, UserError
from gymlab.runs import checkpoints, failpoints, tensors
from gymlab.runs.checkpoints import Kind, load_checkpoint, load_policy, save_checkpoint
from gymlab.runs.paths import RunPaths

pytestmark = pytest.mark.fast


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    paths = RunPaths(tmp_path / "run")
    paths.root.mkdir()
    return paths


def save(paths: RunPaths, step: int, *kinds: Kind, keep: int = 3, **info: Any) -> Path:
    policy, state = {"w": np.full(3, step, np.float32)}, {"m": np.full((2, 2), -step, np.float64)}
    return save_checkpoint(paths, step=step, policy=policy, state=state, info=info, kinds={"last", *kinds}, keep=keep)


def index(paths: RunPaths) -> Any:
    return json.loads(paths.checkpoint_index.read_text())


def flip(path: Path, byte: int = -1, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[byte] ^= 1 << bit
    path.write_bytes(data)


def test_every_kind_of_array_comes_back_bit_for_bit(paths: RunPaths) -> None:
    rng = np.random.default_rng(0)
    arrays = {
        "scalar": np.array(1.5, np.float32),
        "flag": np.array(True),
        "empty": np.zeros((0, 4), np.int32),
        "key": rng.integers(0, 2**32, 4, np.uint32),
        "mask": rng.random((3, 5)) < 0.5,
        "count": np.array(2**62, np.int64),
        "half": np.array([1, math.nan, -math.inf], np.float16),
        "transposed": np.arange(6.0).reshape(2, 3).T,
        "strided": np.arange(10, dtype=np.int16)[::3],
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "byte": np.arange(3, dtype=np.uint8),
        "swapped": np.arange(3, dtype=">i4"),
    }
    save_checkpoint(paths, step=7, policy=arrays, state=arrays, info={"a": 1}, kinds={"last"}, keep=3)
    loaded = load_checkpoint(paths)
    for part in (loaded.policy, loaded.state, load_policy(loaded.path)):
        assert list(part) == sorted(arrays)
        for name, array in arrays.items():
            assert part[name].dtype == array.dtype.newbyteorder("="), name
            assert part[name].shape == array.shape, name
            assert part[name].tobytes() == array.astype(array.dtype.newbyteorder("=")).tobytes(), name
            assert part[name].flags.writeable, name
    assert loaded.info == {"a": 1}
    assert loaded.notes == []


def test_the_same_tensors_give_the_same_bytes_in_any_order() -> None:
    arrays = {name: np.arange(n) for n, name in enumerate("cabd")}
    assert tensors.encode(arrays) == tensors.encode(dict(reversed(arrays.items())))


def test_what_cannot_be_saved_is_named(paths: RunPaths) -> None:
    with pytest.raises(TypeError, match="'names' has dtype <U1"):
        save_checkpoint(paths, step=1, policy={"names": np.array(["a"])}, state={}, info={}, kinds=set(), keep=1)
    assert os.listdir(paths.checkpoints) == []


def test_info_keeps_infinities_and_large_integers(paths: RunPaths) -> None:
    save(paths, 1, best=-math.inf, rng={"state": 2**127 + 1}, metrics={3: 0.1, "x": math.nan}, t=(1, 2), n=np.int64(4))
    info = load_checkpoint(paths).info
    assert info["best"] == -math.inf
    assert info["rng"] == {"state": 2**127 + 1}
    assert info["metrics"]["3"] == 0.1
    assert math.isnan(info["metrics"]["x"])
    assert (info["t"], info["n"]) == ([1, 2], 4)


def test_the_layout_is_the_documented_one(paths: RunPaths) -> None:
    folder = save(paths, 5000, "best")
    assert folder == paths.checkpoints / "5000"
    assert sorted(os.listdir(folder)) == ["checkpoint.json", "policy.safetensors", "state.safetensors"]
    assert index(paths) == {"last": "5000", "best": "5000", "periodic": []}
    assert (
        checkpoints.size_in_bytes(folder)
        == sum((folder / f).stat().st_size for f in os.listdir(folder)[:3])
        - (folder / "checkpoint.json").stat().st_size
    )


def test_retention_keeps_periodic_best_and_last(paths: RunPaths) -> None:
    for step in range(100, 1100, 100):
        save(paths, step, "periodic", *(["best"] if step == 300 else []), keep=2)
    assert checkpoints.steps(paths) == [1000, 900, 300]
    assert index(paths) == {"last": "1000", "best": "300", "periodic": ["900", "1000"]}
    save(paths, 1050)
    assert checkpoints.steps(paths) == [1050, 1000, 900, 300]
    save(paths, 1060, "best")
    assert checkpoints.steps(paths) == [1060, 1000, 900]


def test_which_names_the_checkpoint(paths: RunPaths) -> None:
    save(paths, 100, "periodic", "best")
    save(paths, 200, "periodic")
    save(paths, 300)
    assert [load_checkpoint(paths, which).path.name for which in ("last", "best", "200")] == ["300", "100", "200"]
    assert load_checkpoint(paths, "best", with_state=False).state == {}
    for which in ("250", "bset", "../200", "²", "-1", ""):
        with pytest.raises(UserError, match="has no checkpoint"):
            load_checkpoint(paths, which)


def test_saving_the_same_step_again_replaces_it_and_keeps_its_role(paths: RunPaths) -> None:
    save(paths, 100, "best", "periodic", version=1)
    save(paths, 100, version=2)
    assert load_checkpoint(paths, "best").info == {"version": 2}
    assert index(paths) == {"last": "100", "best": "100", "periodic": ["100"]}
    assert sorted(os.listdir(paths.checkpoints)) == ["100", "index.json"]
    paths.checkpoint_index.unlink()
    assert checkpoints.read_index(paths) == {"last": "100", "best": "100", "periodic": ["100"]}


def test_a_damaged_last_gives_way_to_the_newest_valid_one(paths: RunPaths) -> None:
    for step in (100, 200, 300):
        save(paths, step, "periodic")
    flip(paths.checkpoints / "300" / "state.safetensors")
    (paths.checkpoints / "200" / "policy.safetensors").unlink()
    loaded = load_checkpoint(paths)
    assert loaded.path.name == "100"
    assert loaded.notes == [
        "checkpoint 300 is damaged: state.safetensors does not match its hash",
        "checkpoint 200 is damaged: policy.safetensors: No such file or directory",
        "using checkpoint 100 instead",
    ]
    with pytest.raises(RunError, match=r"state\.safetensors does not match its hash"):
        load_checkpoint(paths, "300")


def test_a_damaged_best_gives_way_too_and_says_so(paths: RunPaths) -> None:
    save(paths, 100, "periodic", "best")
    save(paths, 200, "periodic")
    flip(paths.checkpoints / "100" / "checkpoint.json", byte=20)
    loaded = load_checkpoint(paths, "best")
    assert loaded.path.name == "200"
    assert "checkpoint 100 is damaged" in loaded.notes[0]


def test_without_a_valid_checkpoint_every_reason_is_told(paths: RunPaths) -> None:
    with pytest.raises(RunError, match="none was saved"):
        load_checkpoint(paths)
    save(paths, 100)
    flip(paths.checkpoints / "100" / "policy.safetensors")
    with pytest.raises(RunError, match=r"policy\.safetensors does not match"):
        load_checkpoint(paths, "best")


def test_a_copy_under_another_number_is_not_taken(paths: RunPaths) -> None:
    save(paths, 100)
    shutil.copytree(paths.checkpoints / "100", paths.checkpoints / "900")
    assert load_checkpoint(paths).path.name == "100"


def test_a_damaged_or_missing_index_is_derived_from_the_folders(paths: RunPaths) -> None:
    save(paths, 100, "periodic", "best")
    save(paths, 200, "periodic")
    want = index(paths)
    for text in (
        "",
        "{}",
        '{"last": "../x", "best": null, "periodic": []}',
        '{"last": 3, "best": 1, "periodic": 2}',
        "[]",
    ):
        paths.checkpoint_index.write_text(text)
        assert checkpoints.read_index(paths) == want
    checkpoints.recover(paths)
    assert index(paths) == want


def test_going_on_from_an_older_one_cuts_the_newer(paths: RunPaths) -> None:
    save(paths, 100, "periodic", "best")
    save(paths, 200, "periodic", "best")
    flip(paths.checkpoints / "200" / "policy.safetensors")
    checkpoints.cut_after(paths, 100)
    assert checkpoints.steps(paths) == [100]
    assert index(paths) == {"last": "100", "best": "100", "periodic": ["100"]}


def test_a_full_disk_is_told(paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failpoints, "_passed", type(failpoints._passed)())
    monkeypatch.setenv("GYMLAB_FAILPOINT", "half_state:1:enospc")
    with pytest.raises(RunError, match=r"checkpoint 100 could not be written \(No space left"):
        save(paths, 100)


@pytest.mark.parametrize("place", failpoints.SAVE_FAILPOINTS)
@pytest.mark.parametrize("step", [200, 300])
def test_a_full_disk_at_any_point_keeps_the_earlier_ones(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch, place: str, step: int
) -> None:
    save(paths, 100, "periodic")
    save(paths, 200, "periodic", "best", version=1)
    monkeypatch.setattr(failpoints, "_passed", type(failpoints._passed)())
    monkeypatch.setenv("GYMLAB_FAILPOINT", f"{place}:1:enospc")
    with contextlib.suppress(RunError):
        save(paths, step, "periodic", keep=2, version=2)
    monkeypatch.delenv("GYMLAB_FAILPOINT")
    found = load_checkpoint(paths)
    assert found.notes == []
    assert found.path.name in ("200", str(step))
    save(paths, step, "periodic", keep=2, version=3)  # space is back
    assert load_checkpoint(paths).info == {"version": 3}
    checkpoints.recover(paths)
    assert not [name for name in os.listdir(paths.checkpoints) if name.startswith(".")]


def test_links_inside_a_run_are_not_followed(paths: RunPaths, tmp_path: Path) -> None:
    other = RunPaths(tmp_path / "other")
    other.root.mkdir()
    outside = save(other, 900)
    save(paths, 100)
    (paths.checkpoints / "900").symlink_to(outside)
    loaded = load_checkpoint(paths)
    assert loaded.path.name == "100"
    assert "link" in loaded.notes[0]
    (paths.checkpoints / "900").unlink()
    (paths.checkpoints / "100" / "policy.safetensors").unlink()
    (paths.checkpoints / "100" / "policy.safetensors").symlink_to(outside / "policy.safetensors")
    with pytest.raises(RunError, match="no valid checkpoint"):
        load_checkpoint(paths)
    shutil.rmtree(paths.checkpoints)
    paths.checkpoints.symlink_to(other.checkpoints)
    with pytest.raises(RunError, match="leads out"):
        load_checkpoint(paths)
    with pytest.raises(RunError, match="leads out"):
        save(paths, 1000)
    assert checkpoints.steps(other) == [900]
