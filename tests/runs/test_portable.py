"""Run ids and paths by the rules of Windows and macOS."""

import ast
import ntpath
import posixpath
import subprocess
from pathlib import Path

import pytest

import gymlab
from gymlab.core.errors import UserError
from gymlab.runs import files
from gymlab.runs.paths import RunPaths, new_run_id, valid_run_id
from gymlab.runs.selection import select_run, split_last
from gymlab.runs.store import RunStore
from tests.runs.portable_names import unportable_names

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parents[2]
PACKAGE = Path(gymlab.__file__).parent


@pytest.mark.parametrize("name", ["con", "CON.txt", "Aux", "com1.log", "a.", "a:b", "a*", "a ", "lpt\xb9", "nul "])
def test_names_that_windows_refuses_or_changes_are_no_run_ids(name):
    assert unportable_names([name]) == [name]
    assert not valid_run_id(name)


@pytest.mark.parametrize("run_id", ["a", "console", "com10", "A.b_c-d", "x" * 64, "a new one"])
def test_a_run_id_is_one_folder_name_on_every_system(run_id):
    run_id = new_run_id("ALE/Pong-v5:ppo") if run_id == "a new one" else run_id
    assert valid_run_id(run_id)
    assert unportable_names([run_id]) == []
    for path in (ntpath, posixpath):
        assert path.basename(path.normpath(path.join("runs", run_id))) == run_id
    assert ntpath.splitdrive(run_id) == ("", run_id)


def stored_run(root, run_id):
    paths = RunPaths(root / run_id)
    paths.root.mkdir(parents=True)
    files.write_json(paths.manifest, {"recipe": "CartPole-v1:ppo", "env": {"id": "CartPole-v1"}, "created": "1"})
    return paths


def test_a_run_is_found_in_any_case_as_where_the_file_system_ignores_it(tmp_path):
    stored_run(tmp_path, "Baseline-1")
    assert select_run("baseline-1", tmp_path).run_id == "Baseline-1"
    stored_run(tmp_path, "baseline-1")  # made elsewhere: both exist, and each is meant
    for run_id in ("Baseline-1", "baseline-1"):
        assert select_run(run_id, tmp_path).run_id == run_id


def test_a_new_run_may_not_differ_from_another_in_case_only(tmp_path):
    stored_run(tmp_path, "baseline-1")
    with pytest.raises(UserError, match="differs from that of run 'baseline-1' in case only"):
        RunStore.create(tmp_path, "Baseline-1", name="x")


@pytest.mark.parametrize(
    ("text", "path", "parts"),
    [
        ("cartpole-2/best", posixpath, ("cartpole-2", "best")),
        ("cartpole-2/best", ntpath, ("cartpole-2", "best")),
        (r"C:\runs\one\checkpoints\5000" + "\\", ntpath, (r"C:\runs\one\checkpoints", "5000")),
        ("@best:ALE/Pong-v5/last", ntpath, ("@best:ALE/Pong-v5", "last")),
        ("one", ntpath, ("", "one")),
    ],
)
def test_a_checkpoint_is_separated_from_its_run_by_the_systems_separators(text, path, parts):
    assert split_last(text, path) == parts


def test_nothing_makes_or_follows_a_symbolic_link():
    calls = {
        f"{path.relative_to(PACKAGE)}: {node.attr}"
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ("symlink", "symlink_to", "readlink")
    }
    assert calls == set()


def test_every_file_of_the_repository_has_a_portable_name():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split(
        "\n"
    )
    names = [name for name in listed if name] or [str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py")]
    assert unportable_names(names) == []
