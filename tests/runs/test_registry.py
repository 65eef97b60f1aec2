"""The registry: newest first, rebuilt when damaged, true to the folders."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gymlab.core.clock import Clock
from gymlab.core.errors import RunError, UserError
from gymlab.runs.locks import RunLocked
from gymlab.runs.paths import RunPaths
from gymlab.runs.registry import Registry
from gymlab.runs.status import read_status
from gymlab.runs.store import RunStore, remove_run


def begin(root: Path, run_id: str, **manifest: Any) -> RunStore:
    store = RunStore.create(root, run_id, name="CartPole-v1:ppo")
    store.write_manifest({"recipe": "CartPole-v1:ppo", "env": {"id": "CartPole-v1"}, "seed": 3, **manifest})
    store.write_recipe("env: {id: CartPole-v1}\n")
    store.start()
    return store


def ids(root: Path) -> list[str]:
    return [entry["id"] for entry in json.loads((root / "registry.json").read_text())]


def test_runs_are_listed_newest_first_with_what_matters(tmp_path: Path) -> None:
    for run_id in ("b", "a", "c"):
        with begin(tmp_path, run_id, created=run_id) as store:
            store.note(score=500.0, solved=True)
            store.end("finished", "budget", Clock(5, 50, 400, 9, 1.5, 7))
    assert ids(tmp_path) == ["c", "a", "b"]
    newest = Registry(tmp_path).runs()[0]
    assert newest == {
        **{"id": "c", "name": "CartPole-v1:ppo", "env": "CartPole-v1", "algorithm": None, "seed": 3, "created": "c"},
        **{"status": "finished", "stop_reason": "budget", "score": 500.0, "solved": True},
        **{"updates": 5, "vec_steps": 50, "env_steps": 400, "episodes": 9, "seconds": 1.5, "gradient_steps": 7},
        **{"group": None, "note": None, "tags": []},
    }


def test_a_run_that_never_starts_leaves_nothing(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    store = RunStore.create(root, None, name="CartPole-v1:ppo")
    store.write_manifest({})
    store.discard()
    with pytest.raises(ZeroDivisionError), RunStore.create(root, "x", name="n"):
        raise ZeroDivisionError
    assert os.listdir(root) == [".gitignore"]
    with begin(root, "y") as store, pytest.raises(RunError, match="has started"):
        store.discard()
    assert ids(root) == ["y"]


def test_a_taken_or_impossible_id_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not valid"):
        RunStore.create(tmp_path / "runs", "../x", name="n")
    assert os.listdir(tmp_path) == []
    begin(tmp_path, "x").close()
    with pytest.raises(UserError, match="--resume x"):
        RunStore.create(tmp_path, "x", name="n")


def test_a_run_is_written_by_one_owner_at_a_time(tmp_path: Path) -> None:
    store = begin(tmp_path, "x")
    with pytest.raises(RunLocked, match=f"pid {os.getpid()} on "):
        RunStore.open(store.paths)
    with pytest.raises(RunLocked):
        remove_run(store.paths)
    assert read_status(store.paths)["status"] == "running"
    store.close()  # without a last word
    assert read_status(store.paths)["status"] == "crashed"
    assert Registry(tmp_path).runs()[0]["status"] == "crashed"
    with RunStore.open(store.paths) as again:
        again.start()
        again.end("finished", "budget")
        assert read_status(store.paths)["status"] == "finished"
    assert read_status(store.paths)["sessions"] == 2


def test_how_a_run_was_left_is_recorded(tmp_path: Path) -> None:
    def leave(run_id: str, error: BaseException) -> dict[str, Any]:
        with pytest.raises(type(error)), begin(tmp_path, run_id) as store:
            raise error
        return read_status(store.paths)

    failed = leave("a", RunError("env 3 returned NaN; token=c4n4ry-value"))
    assert (failed["status"], failed["stop_reason"]) == ("failed", "env 3 returned NaN; token=***")
    assert leave("b", KeyboardInterrupt())["status"] == "stopped"
    assert leave("c", ValueError("x"))["stop_reason"] == "ValueError: x"


def test_the_heartbeat_is_rare_and_counts(tmp_path: Path) -> None:
    with begin(tmp_path, "x") as store:
        for update in range(100):
            store.heartbeat(Clock(update))
        assert read_status(store.paths)["clock"]["updates"] == 0
        assert read_status(store.paths)["beats"] == 2


def test_a_damaged_status_is_not_believed(tmp_path: Path) -> None:
    begin(tmp_path, "x").close()
    for text in ("", "[]", '{"status": "solved"}', "\0"):
        (tmp_path / "x" / "status.json").write_text(text)
        assert read_status(RunPaths(tmp_path / "x"))["status"] == "crashed"


@pytest.mark.parametrize("damage", ["", "[{", "{}", "[1]", '[{"id": 3}]', "\0" * 100])
def test_a_damaged_registry_is_rebuilt_with_a_note(tmp_path: Path, damage: str) -> None:
    for run_id in ("a", "b"):
        with begin(tmp_path, run_id, created=run_id) as store:
            store.end("finished", "budget")
    (tmp_path / "registry.json").write_text(damage)
    registry = Registry(tmp_path)
    assert [entry["id"] for entry in registry.runs()] == ["b", "a"]
    assert "rebuilt" in registry.notes[0]
    registry.update("a", solved=True)
    assert ids(tmp_path) == ["b", "a"]


def test_reindexing_rebuilds_from_the_folders_alone(tmp_path: Path) -> None:
    for run_id in ("a", "b", "c"):
        with begin(tmp_path, run_id, created=run_id) as store:
            store.end("finished", "budget")
    registry = Registry(tmp_path)
    registry.set_tags(RunPaths(tmp_path / "a"), lambda tags: [*tags, "keep"])
    (tmp_path / "registry.json").unlink()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "c" / "manifest.json").unlink()
    assert [(entry["id"], entry["tags"]) for entry in registry.reindex()] == [("b", []), ("a", ["keep"])]


def test_entries_change_in_place(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    for run_id in ("a", "b"):
        registry.register({"id": run_id})
    registry.update("a", score=float("nan"))
    registry.register({"id": "a", "note": "again"})
    assert registry.entries() == [{"id": "b"}, {"id": "a", "note": "again"}]
    with pytest.raises(RunError, match="'z'"):
        registry.update("z", x=1)
    with pytest.raises(RunError):
        registry.update("../../x", x=1)


def test_removing_a_run_removes_it_everywhere(tmp_path: Path) -> None:
    with begin(tmp_path, "x") as store:
        store.end("finished", "budget")
    remove_run(store.paths)
    assert ids(tmp_path) == []
    assert not store.paths.root.exists()
    with pytest.raises(UserError, match="not a run folder"):
        RunStore.open(store.paths)


def test_new_runs_of_one_name_never_collide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = iter(["same-id", "same-id", "other-id"])
    monkeypatch.setattr("gymlab.runs.store.new_run_id", lambda name: next(taken))
    assert [RunStore.create(tmp_path, None, name="n").run_id for _ in range(2)] == ["same-id", "other-id"]


def test_ten_thousand_runs_list_quickly(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    many = [{"id": f"run-{i:05}", "status": "finished", "created": str(i), "env": "CartPole-v1"} for i in range(10_000)]
    registry._change(lambda _: many)
    assert registry.entries()[9_999]["id"] == "run-09999"


def test_a_note_is_changed_and_neither_tags_nor_a_rebuild_lose_it(tmp_path: Path) -> None:
    with begin(tmp_path, "one", note="first") as store:
        paths = store.paths
    registry = Registry(tmp_path)
    assert registry.runs()[0]["note"] == "first"
    registry.set_note(paths, "second")
    registry.set_tags(paths, lambda old: [*old, "kept"])
    assert [(run["note"], run["tags"]) for run in registry.reindex()] == [("second", ["kept"])]
    registry.set_note(paths, "")
    assert [(run["note"], run["tags"]) for run in registry.runs()] == [(None, ["kept"])]
