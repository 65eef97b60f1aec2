"""Policies that wait to be filmed are a stranger's data: their step and kind become the name of a film."""

import json

import pytest

from gymlab.core.clock import Clock
from gymlab.runs import videos
from gymlab.runs.paths import RunPaths

pytestmark = pytest.mark.fast


def pending(folder, **changed):
    paths = RunPaths(folder / "run")
    paths.videos.mkdir(parents=True)
    clip = videos.add_pending(paths, b"policy", Clock(updates=2, env_steps=64, seconds=0.5), ("best",))
    about = json.loads(clip.policy.with_suffix(".json").read_text())
    about["clock"] |= changed.pop("clock", {})
    clip.policy.with_suffix(".json").write_text(json.dumps(about | changed))
    return paths


def test_what_was_kept_is_found_again(tmp_path):
    (clip,) = videos.scan_pending(pending(tmp_path))
    assert (clip.clock.env_steps, clip.kinds, clip.policy.read_bytes()) == (64, ("best",), b"policy")


@pytest.mark.parametrize(
    "changed",
    [
        {"clock": {"env_steps": "../../../evil"}},
        {"clock": {"env_steps": 65}},  # of another policy
        {"clock": {"updates": -1}},
        {"clock": {"vec_steps": True}},
        {"clock": {"seconds": "long"}},
        {"clock": {"own": 1}},
        {"kinds": ["../../evil"]},
        {"kinds": []},
        {"kinds": 5},
    ],
    ids=str,
)
def test_a_step_or_kind_that_is_none_is_left_alone(tmp_path, changed):
    assert videos.scan_pending(pending(tmp_path, **changed)) == []
