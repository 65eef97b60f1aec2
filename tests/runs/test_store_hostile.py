"""Hostile names reach nothing outside the runs folder; hostile files run nothing."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gymlab.core.errors import GymlabError, UserError
from gymlab.runs.paths import RunPaths, run_paths
from gymlab.runs.registry import Registry
from gymlab.runs.selection import select_checkpoint, select_run
from gymlab.runs.store import RunStore

PARTS = (
    "..",
    "../..",
    "/",
    "/etc",
    "/etc/passwd",
    "~",
    "~root",
    "a/../..",
    "./..",
    "%2e%2e",
    "..\\..",
    "C:\\",
    "\\\\h\\s",
)
ENDINGS = (
    "",
    "/",
    "/best",
    "/last",
    "/50000",
    "/../secret",
    "\0",
    "\n",
    " ",
    "/checkpoints/1",
    "//",
    ":ppo",
    "\u202e",
    "@best",
)
STARTS = (
    "",
    "x/",
    "x",
    "@best:",
    "@last/",
    "@",
    "-",
    "--help ",
    "$(id)",
    "`id`",
    "; rm -rf /",
    "\x1b[2J",
    "x" * 5000,
    "☃",
)


def corpus() -> list[str]:
    made = [start + part + ending for start in STARTS for part in ("", *PARTS) for ending in ENDINGS]
    return [text for text in dict.fromkeys(made) if text not in ("x", "x/", "x/best", "x/last", "x/50000", "x//")]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    for folder in (tmp_path / "work" / "runs" / "x", tmp_path / "secret", tmp_path):
        folder.mkdir(exist_ok=True, parents=True)
        (folder / "manifest.json").write_text("{}")
    (tmp_path / "work" / "runs" / "link").symlink_to(tmp_path / "secret")
    return tmp_path / "work" / "runs"


def snapshot(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_no_name_leads_out_of_the_runs_folder(runs: Path, tmp_path: Path) -> None:
    names = [*corpus(), "link", "link/best"]
    assert len(names) >= 1000
    before = snapshot(tmp_path)
    for text in names:
        for select in (select_run, select_checkpoint):
            with contextlib.suppress(UserError):
                found = select(text, runs, by_path=False)  # type: ignore[operator]
                paths = found if isinstance(found, RunPaths) else found[0]
                assert paths.root == runs / "x", text
        with contextlib.suppress(UserError):
            assert run_paths(runs, text).root.parent == runs
    assert snapshot(tmp_path) == before


def test_no_name_makes_a_folder_outside(runs: Path, tmp_path: Path) -> None:
    before = [name for name in snapshot(tmp_path) if not name.startswith("work/runs")]
    for text in corpus():
        with contextlib.suppress(GymlabError):
            RunStore.create(runs, text, name=text).close()
    assert [name for name in snapshot(tmp_path) if not name.startswith("work/runs")] == before


def test_a_path_given_by_hand_must_be_a_run_folder(runs: Path, tmp_path: Path) -> None:
    assert select_run(str(tmp_path / "secret"), runs).root == tmp_path / "secret"
    for text in ("/etc/passwd", "/etc", "~root", "../..", "/", str(runs), "\0", "x/manifest.json"):
        if text != "../..":
            with pytest.raises(UserError):
                select_run(text, runs)


def test_a_hostile_registry_names_nothing_outside(runs: Path, tmp_path: Path) -> None:
    hostile = [{"id": name, "status": "running", "env": "E", "score": 9} for name in corpus()[:300]]
    (runs / "registry.json").write_text(json.dumps([*hostile, {"id": "link", "env": "E", "score": 10}]))
    assert [entry["id"] for entry in Registry(runs).runs()] == ["x"]
    assert select_run("@last", runs).run_id == "x"
    with pytest.raises(UserError):
        select_run("@best:E", runs)


HOSTILE = """
import os, pickle, sys
events = []
watched = ("pickle.", "exec", "os.system", "subprocess")
sys.addaudithook(lambda name, args: events.append((name, *map(str, args))) if name.startswith(watched) else None)
from pathlib import Path
from gymlab.core.errors import GymlabError
from gymlab.runs import checkpoints, selection, store
from gymlab.runs.checkpoint_folder import _sealed
from gymlab.runs.files import sha256
from gymlab.runs.metrics_reader import MetricsReader
from gymlab.runs.registry import Registry, summarize
from gymlab.runs.status import read_status
import safetensors.numpy  # imported late otherwise, which runs code

class Bomb:
    def __reduce__(self):
        return os.system, ("touch " + sys.argv[1] + "/pwned",)
bomb = pickle.dumps(Bomb())
payloads = [bomb, b"", b"\\0" * 100, b"\\xff" * 9, b"PK\\3\\4" + bomb, (2**62).to_bytes(8, "little") + b"{}",
            b"SQLite format 3\\0" + bomb, b"[" * 99_999, b'{"a":' * 9_999, b"!!python/object/apply:os.system [id]",
            b'{"run_id": "../../x", "env": {"id": ["a"]}, "recipe": {"a": 1}, "created": 3}', b"null",
            b'{"status": [1]}', b'{"pid": {}, "host": 3, "summary": 3, "clock": [], "tags": {"a": 1}}']
names = ["manifest.json", "status.json", "tags.json", "lock", "metrics.db", "checkpoints/index.json",
         "checkpoints/5/policy.safetensors", "checkpoints/5/state.safetensors", "checkpoints/5/checkpoint.json"]
events.clear()
count = 0
for n, name in enumerate(names):
    for m, payload in enumerate(payloads):
        root = Path(sys.argv[1]) / "runs" / f"r-{n}-{m}"
        (root / "checkpoints" / "5").mkdir(parents=True)
        (root / "manifest.json").write_text("{}")
        facts = {}
        for file in ("policy.safetensors", "state.safetensors"):
            data = payload if name.endswith(file) else b"x"
            (root / "checkpoints" / "5" / file).write_bytes(data)
            facts[file] = {"sha256": sha256(data), "bytes": len(data)}
        good = _sealed({"format": 2, "step": 5, "kinds": ["best"], "info": {}, "files": facts})
        (root / "checkpoints" / "5" / "checkpoint.json").write_bytes(good)
        (root / name).write_bytes(payload)
        paths = selection.select_run(root.name, root.parent)
        for work in (
            lambda: checkpoints.load_checkpoint(paths),
            lambda: checkpoints.load_checkpoint(paths, "best"),
            lambda: checkpoints.load_policy(root / "checkpoints" / "5"),
            lambda: MetricsReader(paths.metrics).last(),
            lambda: read_status(paths),
            lambda: summarize(paths),
            lambda: store.RunStore.open(paths).close(),
        ):
            try:
                work()
            except GymlabError:
                pass
            count += 1
Registry(Path(sys.argv[1]) / "runs").reindex()
print(count, sorted(set(events)))
"""


def test_hostile_run_folders_run_nothing_and_give_no_traceback(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HOSTILE, str(tmp_path)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{9 * 14 * 7} []\n"
    assert "pwned" not in os.listdir(tmp_path)


ARCHIVES = """
import io, json, os, pickle, stat, sys, tarfile, zipfile
from pathlib import Path
root = Path(sys.argv[1])
events, writes = [], []
watched = ("pickle.", "exec", "os.system", "subprocess", "import")
def hook(name, args):
    if name.startswith(watched) and armed:
        events.append((name, *map(str, args)))
    if name == "open" and armed and not set(str(args[1] or "r")) <= set("rb"):
        writes.append(args)
armed = False
sys.addaudithook(hook)
from gymlab.core.errors import GymlabError
from gymlab.sb3.saving import read_model
import codecs, safetensors.numpy, zlib  # imported late otherwise
for name in ("cp437", "utf-8-sig", *(f"utf-{bits}{order}" for bits in (16, 32) for order in ("", "-le", "-be"))):
    codecs.lookup(name)

class Bomb:
    def __reduce__(self):
        return os.system, ("touch " + str(root) + "/pwned",)
bomb = pickle.dumps(Bomb())
payloads = [bomb, b"", b"\\0" * 100, b"\\xff" * 9, b"PK\\3\\4" + bomb, (2**62).to_bytes(8, "little") + b"{}",
            b"[" * 99_999, b'{"a":' * 9_999, b"!!python/object/apply:os.system [id]", b"null", b'{"format": 2}',
            b'{"format": 2, "files": {"policy.safetensors": {"sha256": 3}}, "recipe": "!!python/name:os.system"}',
            b'{"format": 2, "files": [], "module": "os:system"}', b'{"format": 1e400}']
members = ["model.json", "policy.safetensors", "state.safetensors"]
sound = {"model.json": b'{"format": 2, "files": {}}', "policy.safetensors": b"x", "state.safetensors": b"x"}

def archive(name, contents, kind=zipfile.ZIP_STORED):
    with zipfile.ZipFile(root / name, "w", kind) as out:
        for member, data in contents:
            out.writestr(member, data)

for n, member in enumerate(members):
    for m, payload in enumerate(payloads):
        archive(f"a-{n}-{m}.zip", {**sound, member: payload}.items())
link = zipfile.ZipInfo("model.json")
link.external_attr = (stat.S_IFLNK | 0o777) << 16
for name, contents in {
    "up": [("../pwned", b"x"), *sound.items()], "absolute": [(str(root / "pwned"), b"x"), *sound.items()],
    "windows": [("..\\\\..\\\\pwned", b"x"), *sound.items()], "link": [(link, b"/etc/passwd")],
    "nested": [("model.json", (root / "a-0-0.zip").read_bytes())], "empty": [],
    "many": [(str(n), b"") for n in range(9999)],
    "sb3": [("data", bomb), ("policy.pth", bomb), ("pytorch_variables.pth", bomb)],
    "torch": [("archive/data.pkl", bomb), ("model.json", bomb)], "null": [("model.json\\0.txt", b"{}")],
}.items():
    archive(f"b-{name}.zip", contents)
archive("c-swollen.zip", [("model.json", b" " * 10**8), *list(sound.items())[1:]], zipfile.ZIP_DEFLATED)
whole = (root / "a-0-1.zip").read_bytes()
(root / "c-cut.zip").write_bytes(whole[: len(whole) // 2])
head = b"PK\\1\\2\\x14\\x03\\x14\\0"
(root / "c-locked.zip").write_bytes(whole.replace(head + b"\\0\\0", head + b"\\1\\0"))  # encrypted
with tarfile.open(root / "c-tar.zip", "w") as tar:
    tar.add(root / "a-0-0.zip", "../pwned")
(root / "c-pickle.zip").write_bytes(bomb)
count, armed = 0, True
for path in sorted(root.glob("*.zip")):
    try:
        read_model(path)
    except GymlabError:
        count += 1
armed = False
print(count, len(list(root.glob("*.zip"))), sorted(set(events)), writes)
"""


def test_hostile_archives_run_nothing_unpack_nothing_and_give_no_traceback(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ARCHIVES, str(tmp_path)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    refused, made, *found = done.stdout.split(maxsplit=2)
    assert refused == made
    assert int(made) >= 50
    assert found == ["[] []\n"]
    assert not list(tmp_path.rglob("*pwned*"))
