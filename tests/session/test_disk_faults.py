"""A disk that is full or read-only: refused before a run starts, told when it happens, and nothing saved is lost."""

import contextlib
import errno
import os
import subprocess
from collections import Counter

import numpy as np
import pytest

from gymlab.core.errors import RunError, UserError
from gymlab.recipes.resolve import resolve
from gymlab.runs import failpoints
from gymlab.runs.checkpoints import cut_after, load_checkpoint, recover, save_checkpoint, steps
from gymlab.runs.disk_space import DiskFault, Room, check_room
from gymlab.runs.paths import RunPaths
from gymlab.runs.status import read_status
from gymlab.session.run_guard import guard_run
from gymlab.session.session import Options
from gymlab.session.start import Continuation, resume, train
from gymlab.training.events import Checkpointed, Feature
from tests.running import assert_same_run, gymlab
from tests.session.killing import SMALL_PPO, TINY

PAGE = 4096
RUN = ["CartPole-v1:ppo", *SMALL_PPO, "normalize.obs=true", *TINY]  # what other tests here have compiled already


@pytest.fixture
def disk(tmp_path):
    """Makes small file systems."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    mounted = []

    def make(size, options="rw"):
        folder = tmp_path / f"disk{len(mounted)}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size},{options}", "tmpfs", str(folder)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no tmpfs here: {done.stderr}")
        mounted.append(folder)
        return folder

    yield make
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder, leave=0):
    """Take up all room but some pages."""
    facts = os.statvfs(folder)
    with (folder / "ballast").open("ab") as file, contextlib.suppress(OSError):  # a run may take the last page
        while (size := facts.f_bavail * facts.f_frsize - leave * PAGE) > 0:
            os.posix_fallocate(file.fileno(), file.tell(), min(size, 2**20))
            file.seek(0, os.SEEK_END)
            facts = os.statvfs(folder)


def empty(folder):
    (folder / "ballast").unlink()


def test_a_disk_that_is_full_at_any_page_of_a_save_loses_no_checkpoint(disk):
    folder = disk("2m")
    paths = RunPaths(folder / "run")
    paths.root.mkdir()

    def save(step, version):
        arrays = {"a": np.full(20_000, version, np.float32)}
        save_checkpoint(
            paths, step=step, policy={"w": arrays["a"][:5000]}, state=arrays, info={"version": version},
            kinds={"periodic"}, keep=2,
        )  # fmt: skip

    save(100, 1)
    save(200, 2)
    failed = 0
    for pages in range(40):
        fill(folder, pages)
        told = ""
        try:
            save(300, 3)
        except RunError as error:
            told = str(error)
        full = "No space left on device" in told
        assert full == bool(told)
        found = load_checkpoint(paths)
        assert found.notes == []
        assert found.info == {"version": found.step // 100}
        assert found.step in ((200, 300) if full else (300,))
        assert 200 in steps(paths)
        empty(folder)
        save(300, 3)  # room is back
        assert load_checkpoint(paths).step == 300
        cut_after(paths, 200)
        recover(paths)
        if 100 not in steps(paths):
            save(100, 1)
            save(200, 2)
        failed += full
    assert 20 < failed < 40  # it failed at each of its pages, and no more


def trained(root, name, watchers=()):
    settings = [text for text in RUN[1:] if "=" in text]
    recipe = resolve(RUN[0], settings, budget="8k").recipe
    return train(recipe, Options(run_id=name, full_budget=True), root, watchers=watchers)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    root = tmp_path_factory.mktemp("whole")
    return trained(root, "whole").run_dir


def full_disk(paths):
    return (
        f"the disk is full ({paths.root}): the last checkpoint {steps(paths)[0]} is intact; "
        f"free some space and run: gymlab resume {paths.run_id}"
    )


@pytest.mark.parametrize(
    "point", ["half_state:4", pytest.param("before_index:5", marks=pytest.mark.slow), "mid_commit:2"]
)
def test_a_run_out_of_disk_stops_says_so_and_goes_on_exactly(point, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(failpoints, "_passed", Counter())
    monkeypatch.setenv("GYMLAB_FAILPOINT", f"{point}:enospc")
    with pytest.raises(DiskFault) as error:
        trained(tmp_path, "full")
    monkeypatch.delenv("GYMLAB_FAILPOINT")
    paths = RunPaths(tmp_path / "full")
    assert str(error.value) == full_disk(paths)
    status = read_status(paths)
    assert (status["status"], status["stop_reason"]) == ("failed", full_disk(paths))
    assert resume(paths, Continuation()).status == "finished"
    assert_same_run(whole, paths.root)


class Filler(Feature):
    """Somebody else on the same disk, who takes all that is left after the third checkpoint, and what is pruned."""

    def __init__(self, folder):
        self.folder, self.checkpoints = folder, 0

    def __call__(self, event, control):
        self.checkpoints += isinstance(event, Checkpointed)
        if self.checkpoints >= 3:
            fill(self.folder)


def test_a_disk_that_fills_up_during_a_run_ends_it_and_more_room_lets_it_go_on(disk, whole):
    small = disk("32m")
    with pytest.raises(DiskFault) as error:
        trained(small, "full", [Filler(small)])
    run = RunPaths(small / "full")
    assert str(error.value) == full_disk(run)
    assert read_status(run)["status"] in ("failed", "crashed")  # as far as that could still be written
    assert load_checkpoint(run).notes == []
    with pytest.raises(UserError, match="too little room"):
        resume(run, Continuation())
    empty(small)
    assert resume(run, Continuation()).status == "finished"
    assert_same_run(whole, run.root)


def test_a_full_disk_has_its_own_message_and_exit_code_1(folder):
    failing = {"GYMLAB_FAILPOINT": "half_policy:1:enospc"}
    done = gymlab("train", *RUN, "--run-id", "full", cwd=folder, check=False, **failing)
    assert done.returncode == 1
    assert done.stderr.endswith("no checkpoint was saved yet; free some space and start the run again\n")


def test_a_run_that_has_no_room_is_refused_and_leaves_nothing(disk, folder):
    small = disk("1m")
    refused = gymlab("train", *RUN, cwd=folder, check=False, GYMLAB_RUNS=str(small / "runs"))
    assert refused.returncode == 2
    assert f"runs folder '{small}/runs' has too little room: the run needs about " in refused.stderr
    assert "1.0 MiB are free" in refused.stderr
    assert os.listdir(small) == []
    assert os.listdir(folder) == [small.name]


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_made(disk, tmp_path):
    frozen = disk("32m", "ro")
    for root in (frozen, frozen / "deep" / "runs"):
        with pytest.raises(UserError, match=r"cannot be written: it is a read-only folder.* about .*B.* are free"):
            trained(root, "a")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file"):
        check_room(tmp_path / "file" / "runs", Room(1, 3, 1))
    assert sorted(os.listdir(tmp_path)) == [frozen.name, "file"]


def test_a_folder_that_becomes_read_only_ends_the_run(disk):
    frozen = disk("32m")
    paths = RunPaths(frozen / "run")
    paths.root.mkdir()
    save_checkpoint(paths, step=100, policy={}, state={}, info={}, kinds={"last"}, keep=1)
    subprocess.run(["mount", "-o", "remount,ro", str(frozen)], check=True)
    told = r"can no longer be written \(.*\): the last checkpoint 100 is intact"
    with pytest.raises(DiskFault, match=told), guard_run(paths):
        (paths.root / "status.json").write_text("{}")


def test_only_the_disk_is_blamed_on_the_disk(tmp_path):
    with contextlib.suppress(KeyError), guard_run(RunPaths(tmp_path)):
        raise KeyError("something else")
    with pytest.raises(FileNotFoundError), guard_run(RunPaths(tmp_path)):
        (tmp_path / "missing").read_text()

    def env_fault():
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError:
            raise RunError("an env's own disk") from None  # as env faults are told

    with pytest.raises(RunError, match="an env's own disk"), guard_run(RunPaths(tmp_path)):
        env_fault()


def test_the_estimate_counts_every_checkpoint_that_can_exist_at_once(tmp_path):
    room = Room(checkpoint=10 * 2**20, keep=3, rows=1000)
    assert 60 * 2**20 < room.needed < 70 * 2**20
    check_room(tmp_path, room)
    with pytest.raises(UserError, match=r"6 checkpoints of 1024.0 GiB.* checkpoints.keep"):
        check_room(tmp_path, Room(checkpoint=2**40, keep=3, rows=1))
