"""Run ids, file names, and what the package may import."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gymlab.runs
from gymlab.core.errors import RunError, UserError
from gymlab.runs.paths import RunPaths, new_run_id, prepare_runs_folder, run_paths, runs_folder, valid_run_id

PACKAGE = Path(next(iter(gymlab.runs.__path__)))


@pytest.mark.parametrize("run_id", ["a", "0", "cartpole-v1-ppo-20261115-054200-ab12", "A.b_c-d", "x" * 64])
def test_plain_names_are_run_ids(run_id: str) -> None:
    assert valid_run_id(run_id)


@pytest.mark.parametrize(
    "run_id",
    ["", ".", "..", "-x", "_x", ".git", "a/b", "a\\b", "a b", "a\n", "ä", "x" * 65, "a\0", "CON", "nul.txt", "a."],
)
def test_other_names_are_not(run_id: str, tmp_path: Path) -> None:
    assert not valid_run_id(run_id)
    with pytest.raises(UserError, match="not valid"):
        run_paths(tmp_path, run_id)


def test_a_linked_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "evil").symlink_to(tmp_path)
    with pytest.raises(UserError, match="link"):
        run_paths(tmp_path / "runs", "evil")


def test_paths_do_not_lead_out_of_the_run(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "r")
    paths.root.mkdir()
    paths.checkpoints.symlink_to(tmp_path)
    with pytest.raises(RunError, match="leads out"):
        paths.inside(paths.checkpoint_index)
    assert paths.inside(paths.manifest) == paths.root / "manifest.json"


def test_new_ids_are_valid_sortable_and_tell_the_recipe() -> None:
    run_id = new_run_id("CartPole-v1:ppo")
    assert re.fullmatch(r"cartpole-v1-ppo-\d{8}-\d{6}-[0-9a-f]{4}", run_id)
    for name in ("ALE/Pong-v5:ppo", "x" * 300, "../../etc", "", "模块:环境"):
        assert valid_run_id(new_run_id(name))


def test_the_runs_folder_keeps_itself_out_of_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare_runs_folder(tmp_path / "a" / "runs")
    assert (tmp_path / "a" / "runs" / ".gitignore").read_text() == "*\n"
    monkeypatch.setenv("GYMLAB_RUNS", str(tmp_path / "b"))
    assert runs_folder() == tmp_path / "b"
    assert runs_folder("given") == Path("given")
    monkeypatch.delenv("GYMLAB_RUNS")
    assert runs_folder() == Path("runs")


def test_an_impossible_runs_folder_is_told_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="GYMLAB_RUNS"):
        prepare_runs_folder(tmp_path / "file" / "runs")


def test_only_one_file_knows_the_operating_system() -> None:
    for path in PACKAGE.glob("*.py"):
        imported = {
            name.name.partition(".")[0]
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Import)
            for name in node.names
        }
        assert path.name == "platform.py" or not imported & {"fcntl", "msvcrt", "socket", "signal", "pickle"}, path


def test_the_package_imports_neither_jax_nor_gymnasium() -> None:
    modules = ", ".join(f"gymlab.runs.{path.stem}" for path in PACKAGE.glob("*.py") if path.stem != "__init__")
    code = f"import sys, {modules}; print({{'jax', 'gymnasium', 'rich'}} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
