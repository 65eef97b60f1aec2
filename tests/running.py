"""Starting gymlab as a user does, and comparing what two runs left behind."""

import json
import os
import subprocess
import sys
from pathlib import Path

from gymlab.runs.checkpoints import load_checkpoint
from gymlab.runs.metrics_reader import MetricsReader
from gymlab.runs.paths import RunPaths

ROOT = Path(__file__).parent.parent


def environment(**more):
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    return {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "default", **more}


def gymlab(*arguments, cwd, check=True, **environ):
    """Run a command to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "gymlab", *map(str, arguments)],
        check=False, cwd=cwd, env=environment(**environ), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    if check:
        assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done


def start(*arguments, cwd, **environ):
    """Start a command and leave it running."""
    return subprocess.Popen(
        [sys.executable, "-m", "gymlab", *map(str, arguments)],
        cwd=cwd, env=environment(**environ), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def last_json(done):
    return json.loads(done.stdout.strip().splitlines()[-1])


def metric_rows(folder):
    """Every value of every update but the times."""
    with MetricsReader(RunPaths(Path(folder)).metrics) as reader:
        names = [name for name in reader.names() if not name.startswith(("time/", "sys/", "seconds"))]
        values = reader.read(names)
    return {name: values[name].tobytes() for name in names}


def assert_same_run(one, two):
    """Byte for byte: metrics, and the last and the best checkpoint."""
    a, b = metric_rows(one), metric_rows(two)
    assert a.keys() == b.keys()
    assert [name for name in a if a[name] != b[name] and name != "env/restarts"] == []
    for which in ("last", "best"):
        left, right = (load_checkpoint(RunPaths(Path(folder)), which) for folder in (one, two))
        assert left.path.name == right.path.name
        for part in ("policy", "state"):
            mine, theirs = getattr(left, part), getattr(right, part)
            assert mine.keys() == theirs.keys()
            differ = [name for name in mine if mine[name].tobytes() != theirs[name].tobytes()]
            assert [name for name in differ if not name.endswith("env/restarts")] == []
        assert left.info["features"] == right.info["features"]
        assert json.dumps(left.info["metrics"], sort_keys=True) == json.dumps(right.info["metrics"], sort_keys=True)
        clocks = [{**loaded.info["clock"], "seconds": 0} for loaded in (left, right)]
        assert clocks[0] == clocks[1]
