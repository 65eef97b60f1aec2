"""Files that are whole or absent."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

from gymlab.core.errors import RunError
from gymlab.runs import files

pytestmark = pytest.mark.fast


def test_a_failed_write_leaves_the_old_content_and_no_temp_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    files.write_text(path, "old")

    def fail_halfway() -> None:
        with files.atomic(path) as file:
            file.write(b"half of the n")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        fail_halfway()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.json"]


def test_written_files_get_the_usual_rights(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("x")
    files.write_text(tmp_path / "ours", "x")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_json_keeps_numpy_values_nan_and_infinities(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    files.write_json(path, {"a": np.float32(0.1), "b": np.arange(3), "c": math.inf, "d": math.nan, "e": {2, 1}})
    back = files.read_json(path)
    assert back["a"] == float(np.float32(0.1))
    assert back["b"] == [0, 1, 2]
    assert back["c"] == math.inf
    assert math.isnan(back["d"])
    assert back["e"] == [1, 2]


def test_json_for_other_programs_is_strict() -> None:
    text = files.strict_json({"a": [math.nan, 1.5, -math.inf], "b": np.int64(3)})
    assert json.loads(text, parse_constant=pytest.fail) == {"a": [None, 1.5, None], "b": 3}


def test_unknown_types_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="object"):
        files.write_json(tmp_path / "a.json", {"a": object()})
    assert os.listdir(tmp_path) == []


def test_links_are_not_read_through(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("{}")
    (tmp_path / "manifest.json").symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="symbolic"):
        files.read_json(tmp_path / "manifest.json")


def test_damaged_and_oversized_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[" * 100_000)
    with pytest.raises(RunError, match="damaged"):
        files.read_json(tmp_path / "a.json")
    with pytest.raises(RunError, match="more than the limit of 10"):
        files.read_bytes(tmp_path / "a.json", limit=10)


def test_sweeping_removes_only_temp_files(tmp_path: Path) -> None:
    for name in (".a.json.tmp-12-ab", "a.json", ".gitignore", "x.tmp-1"):
        (tmp_path / name).write_text("x")
    files.sweep_temp_files(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [".gitignore", "a.json", "x.tmp-1"]
