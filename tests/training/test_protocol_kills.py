"""The toy run is killed in whatever it does, ten times on each engine, and ends with the bytes of one that was not."""

import random
import subprocess
import sys
import time

import pytest

from gymlab.runs import tensors
from tests.running import ROOT, environment
from tests.training.test_protocol import UPDATES, as_bytes

KILLS = 10


def start(kind, path):
    command = [sys.executable, "-m", "tests.training.toy_run", kind, str(path)]
    return subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True)


def finish(kind, path):
    with start(kind, path) as child:
        assert child.communicate()[0].split()[-1] == str(UPDATES)
        assert child.wait() == 0
    return as_bytes(tensors.decode(path.read_bytes()))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["compiled", "host"])
def test_ten_kills_change_no_byte(kind, tmp_path):
    whole = finish(kind, tmp_path / "whole.safetensors")
    killed = tmp_path / "killed.safetensors"
    dice = random.Random(5)
    made = []
    for _ in range(KILLS):
        if made and made[-1] > UPDATES - 4:
            killed.unlink()  # begin again, so that there is something left to kill
        with start(kind, killed) as child:
            made.append(int(child.stdout.readline()))
            time.sleep(dice.uniform(0.0, 0.05))  # in an update, in writing, or in between
            child.kill()
    assert finish(kind, killed) == whole
    assert len(set(made)) >= 3
