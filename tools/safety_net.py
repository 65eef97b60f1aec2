"""Safety net of a behaviour-preserving change: what `gymlab` computes, prints and leaves on disk, as hashes.

    python tools/safety_net.py record OUT.json [--gymlab PATH]     # run everything, write what came of it
    python tools/safety_net.py compare BEFORE.json AFTER.json      # exit code 1 where they differ

Weights depend on the processor, Python and JAX, so both sides are recorded on one machine: before from a checkout of
the old commit, after from the working tree. `--gymlab` is the program under test. `compare` refuses other versions.
"""

import argparse
import csv
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Columns that hold wall-clock time or the machine's state; evaluation is recorded apart.
UNSTABLE = ("seconds", "time/", "sys/", "eval/", "score/")
ADDED = ("gradient_steps",)  # columns and keys that came after a recording: a side without them is not different
SMALL = ("n_envs=4", "n_steps=32", "batch_size=64")
NORMALIZED = ("normalize.obs=true", "normalize.reward=true")
VARIANTS = {  # name -> arguments of `gymlab train`
    "compiled-ppo": ["CartPole-v1:ppo", "--budget", "2048"],
    "host-ppo": ["CartPole-v1:ppo", "--engine", "gymnasium", "--budget", "2048"],
    "compiled-a2c": ["CartPole-v1:a2c", "--budget", "800"],
    "reinforce-buffer": ["CartPole-v1:reinforce", "--budget", "4096"],
    "box-normalized": [
        "Pendulum-v1:ppo",
        "n_steps=64",
        "normalize.obs=true",
        "normalize.reward=true",
        "--budget",
        "1024",
    ],
    "masked": ["Taxi-v4:ppo", "n_steps=32", "--budget", "4096"],
    "discrete-host": [
        "FrozenLake-v1:ppo",
        "--engine",
        "gymnasium",
        "n_envs=4",
        "n_steps=32",
        "batch_size=64",
        "--budget",
        "512",
    ],
    "count-bonus": ["MountainCar-v0:counts", "--budget", "8192"],
    "box2d-host": ["LunarLander-v3:ppo", "n_envs=4", "n_steps=32", "--budget", "512"],
    "image": ["MinAtar/Breakout-v1:ppo", "n_envs=4", "n_steps=16", "batch_size=32", "--budget", "256"],
    "dict-mixed": ["net_envs:DictEnv", *SMALL, "--budget", "512"],
    "vmapped": ["CartPole-v1:ppo", "--seeds", "2", "--vmap", "--budget", "1024"],
    "processes": ["CartPole-v1:ppo", "--seeds", "2", "--budget", "1024"],
}
KILLED = ("compiled-ppo", "host-ppo", "reinforce-buffer", "box2d-host", "vmapped")
COMMANDS = {  # name -> arguments, run in the folder that the training above left; {run} is the compiled run
    "help": ["--help"],
    "version": ["--version"],
    "runs-list": ["runs", "list", "--json"],
    "runs-show": ["runs", "show", "{run}", "--json"],
    "runs-compare": ["runs", "compare", "{run}", "compiled-a2c", "--json"],
    "runs-plot": ["runs", "plot", "{run}"],
    "runs-tag": ["runs", "tag", "{run}", "net"],
    "runs-unknown": ["runs", "show", "no-such-run"],
    "runs-reindex": ["runs", "reindex"],
    "eval": ["eval", "{run}", "--episodes", "5", "--json"],
    "eval-unknown": ["eval", "no-such-run"],
    "report": ["report", "{run}"],
    "diagnose": ["diagnose", "{run}", "--json"],
    "explain-metric": ["explain", "opt/approx_kl"],
    "explain-setting": ["explain", "gae_lambda"],
    "explain-unknown": ["explain", "aprox_kl"],
    "trace": ["trace", "CartPole-v1:ppo", "--json"],
    "config-show": ["config", "show", "Pendulum-v1:ppo"],
    "config-check": ["config", "check", "CartPole-v1:ppo"],
    "config-schema": ["config", "schema"],
    "config-where": ["config", "where"],
    "envs-list": ["envs", "list", "--json"],
    "envs-check": ["envs", "check", "CartPole-v1", "--json"],
    "refs": ["refs", "CartPole-v1", "--json"],
    "queue-list": ["queue", "list", "--json"],
    "pretrained": ["pretrained", "list", "--json"],
    "logs": ["logs", "{run}"],
    "wait": ["wait", "{run}"],
    "resume-finished": ["resume", "{run}"],
    "train-unknown-env": ["train", "CartPole-v9"],
    "train-unknown-key": ["train", "CartPole-v1:ppo", "learning_rat=1"],
    "train-bad-batch": ["train", "CartPole-v1:ppo", "batch_size=100"],
    "export-html": ["export", "{run}", "--html"],
    "doctor": ["doctor", "--json"],
}
MASKED = (
    "seconds",
    "time",
    "date",
    "path",
    "dir",
    "version",
    "description",
    "pid",
    "host",
    "python",
    "platform",
    "size",
    "bytes",
    "commit",
    "id",
)
ENVS = '''"""An env with a Dict observation and a mixed set of leaves, for the safety net."""
import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary


class DictEnv(gymnasium.Env):
    observation_space = Dict({"at": Box(-1, 1, (3,), np.float32), "room": Discrete(4), "flags": MultiBinary(2)})
    action_space = Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.look(), {}

    def look(self):
        at = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return {"at": at, "room": int(self.np_random.integers(4)), "flags": self.np_random.integers(0, 2, 2, np.int8)}

    def step(self, action):
        self.steps += 1
        return self.look(), float(-np.square(action).sum()), self.steps % 7 == 0, self.steps >= 20, {}
'''


class Net:
    def __init__(self, gymlab: str, folder: Path) -> None:
        self.gymlab, self.folder = gymlab, folder
        self.environ = {k: v for k, v in os.environ.items() if not k.startswith("GYMLAB")}
        self.environ |= {
            "GYMLAB_RUNS": str(folder / "runs"),
            "GYMLAB_VIDEO": "off",
            "GYMLAB_CACHE": os.environ.get("GYMLAB_CACHE", str(folder / "cache")),
            "HOME": str(folder / "home"),
            "JAX_PLATFORMS": "cpu",
            "COLUMNS": "120",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")])),
        }
        (folder / "home").mkdir()
        (folder / "net_envs.py").write_text(ENVS)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [self.gymlab, *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=self.environ, capture_output=True, text=True, timeout=600, check=False
        )

    def train(self, name: str, run_id: str) -> subprocess.CompletedProcess[str]:
        return self.run("train", *VARIANTS[name], "--full-budget", "-q", *self.named(name, run_id))

    def named(self, name: str, run_id: str) -> list[str]:
        return ["--group", run_id] if "--seeds" in VARIANTS[name] else ["--run-id", run_id]

    def folders(self, name: str, run_id: str) -> list[Path]:
        """The run's folder, or those of a group's members in the order of their seeds."""
        if "--seeds" not in VARIANTS[name]:
            return [self.folder / "runs" / run_id]
        manifests = sorted((self.folder / "runs").glob("*/manifest.json"))
        return [path.parent for path in manifests if json.loads(path.read_text()).get("group") == run_id]

    def digest(self, folder: Path) -> dict[str, object]:
        index = json.loads((folder / "checkpoints/index.json").read_text())
        last = folder / "checkpoints" / index["last"]
        files = ("policy.safetensors", "state.safetensors")
        return {
            "checkpoint": index["last"],
            "tensors": {file: tensor_digest(last / file) for file in files},
            "columns": self.columns(folder),
        }

    def columns(self, folder: Path) -> dict[str, str]:
        table = self.folder / "metrics.csv"
        done = self.run("runs", "export", folder.name, "--csv", str(table))
        assert done.returncode == 0, done.stdout + done.stderr
        with table.open() as file:
            header, *rows = csv.reader(file)
        columns = zip(header, zip(*rows, strict=True), strict=True)
        return {name: sha("\n".join(values)) for name, values in columns if not name.startswith(UNSTABLE)}

    def killed(self, name: str) -> list[Path]:
        """Train, kill -9 once a checkpoint is there, and resume until the budget is reached."""
        run_id = f"{name}-killed"
        command = [self.gymlab, "train", *VARIANTS[name], "--full-budget", "-q", *self.named(name, run_id)]
        process = subprocess.Popen(command, cwd=self.folder, env=self.environ, start_new_session=True)
        deadline = time.monotonic() + 300
        while process.poll() is None and time.monotonic() < deadline:
            folders = self.folders(name, run_id)
            if folders and all((folder / "checkpoints/index.json").exists() for folder in folders):
                break
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        done = self.run("resume", run_id, "-q")
        assert done.returncode == 0, done.stdout + done.stderr
        return self.folders(name, run_id)


def sha(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:16]


def tensor_digest(path: Path) -> str:
    """Names, types, shapes and bytes, in the order of the names; what else the file's header says is left out."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    body = data[8 + length :]
    digest = hashlib.sha256()
    for name, entry in sorted(header.items()):
        if name != "__metadata__":
            start, end = entry["data_offsets"]
            digest.update(f"{name} {entry['dtype']} {entry['shape']}".encode() + body[start:end])
    return digest.hexdigest()[:16]


def shape(value: object, key: str = "") -> object:
    """A JSON value with the numbers and what differs between machines masked."""
    if isinstance(value, dict):
        return {name: shape(inner, name) for name, inner in value.items() if not name.startswith(("sys/", "time/"))}
    if isinstance(value, list) and key != "command":
        if all(isinstance(inner, dict) and "run_id" in inner for inner in value):
            value = sorted(value, key=lambda run: run["run_id"])  # two processes may begin in either order
        return [shape(inner, key) for inner in value[:3]]
    if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\dT|/tmp/", value):
        return "time or path"
    if isinstance(value, float | list) or any(word in key.lower() for word in MASKED):
        return type(value).__name__
    return value


def printed(text: str) -> object:
    try:
        return shape(json.loads(text))
    except ValueError:
        return f"{len(text.splitlines())} lines" if text else ""


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def record(gymlab: str) -> dict[str, object]:
    folder = Path(tempfile.mkdtemp(prefix="safety-net-"))
    net = Net(gymlab, folder)
    trained, killed, commands = {}, {}, {}
    try:
        for name in VARIANTS:
            done = net.train(name, name)
            print(f"{name}: exit {done.returncode}", flush=True)
            assert done.returncode == 0, done.stdout + done.stderr
            trained[name] = [net.digest(path) for path in net.folders(name, name)]
        for name in KILLED:
            again = [net.digest(path) for path in net.killed(name)]
            killed[name] = again == trained[name]
            print(f"{name}: killed and resumed, {'equal' if killed[name] else 'DIFFERENT'}", flush=True)
        for name, arguments in COMMANDS.items():
            done = net.run(*[argument.format(run="compiled-ppo") for argument in arguments])
            commands[name] = {"exit": done.returncode, "stdout": printed(done.stdout)}
        layout = {"run": files(folder / "runs/compiled-ppo"), "group": files(net.folders("vmapped", "vmapped")[0])}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {"versions": versions(gymlab), "trained": trained, "killed": killed, "commands": commands, "files": layout}


def versions(gymlab: str) -> dict[str, str]:
    python = Path(gymlab).parent / "python"
    code = "import jax, jaxlib, numpy; print(jax.__version__, jaxlib.__version__, numpy.__version__)"
    found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    return {"python": platform.python_version(), "jax jaxlib numpy": found, "cores": str(os.cpu_count())}


def differences(before: object, after: object, where: str = "") -> list[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        lost = [f"{where}/{key}: gone" for key in before if key not in after]
        new = [f"{where}/{key}: new" for key in after if key not in before and key not in ADDED]
        both = [key for key in before if key in after]
        return lost + new + [line for key in both for line in differences(before[key], after[key], f"{where}/{key}")]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [line for i, (one, other) in pairs for line in differences(one, other, f"{where}[{i}]")]
    return [] if before == after else [f"{where}: {before!r} -> {after!r}"[:400]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    recording = actions.add_parser("record")
    recording.add_argument("out", type=Path)
    recording.add_argument("--gymlab", default=str(Path(sys.executable).parent / "gymlab"))
    comparing = actions.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.action == "record":
        options.out.write_text(json.dumps(record(str(Path(options.gymlab).absolute())), indent=1) + "\n")
        return 0
    before = json.loads(options.before.read_text())
    after = json.loads(options.after.read_text())
    if before["versions"] != after["versions"]:
        print(f"not compared: recorded under {before['versions']} and {after['versions']}")
        return 2
    found = differences(before, after)
    print("\n".join(found) or "equal")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
