"""Killed inside a save or a metric commit, a real training run goes on as if nothing had happened."""

import pytest

from gymlab.runs.failpoints import METRIC_FAILPOINTS, SAVE_FAILPOINTS
from tests.running import assert_same_run, gymlab
from tests.session.killing import CASES, kill_until_done, train

CASE = "ppo cartpole compiled"
# In a run nothing is saved twice at one step, so `between_renames` is only met by the store's own test.
POINTS = [point for point in (*SAVE_FAILPOINTS, *METRIC_FAILPOINTS) if point != "between_renames"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    train(CASE, "whole", folder)
    return folder / "runs" / "whole"


def die_and_resume(point, folder, whole):
    died = train(CASE, "killed", folder, GYMLAB_FAILPOINT=point)
    assert died.returncode == 137, died.stderr
    done = gymlab("resume", "killed", cwd=folder)
    # The first save is that of step 0: killed inside it, a run has no checkpoint and begins again at its seed.
    assert "resumed (exact)" in done.stdout or "begins again at its seed" in done.stdout
    assert_same_run(whole, folder / "runs/killed")


def test_a_run_killed_inside_a_save_goes_on_exactly(folder, whole):
    die_and_resume("half_state:3", folder, whole)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("point", POINTS)
def test_a_run_killed_at_any_failpoint_goes_on_exactly(point, count, folder, whole):
    if point == "after_columns" and count > 1:
        pytest.skip("columns are added once")
    die_and_resume(f"{point}:{count}", folder, whole)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_seventeen_random_kills_change_nothing(case, folder):
    """Fifteen cases, 255 kills in all."""
    train(case, "whole", folder)
    hits = 0
    for round_ in range(17):
        hits += kill_until_done(case, folder, 17 - hits, round_)
        if hits >= 17:
            return
        gymlab("runs", "rm", "killed", cwd=folder)
    pytest.fail(f"only {hits} kills hit a running process")
