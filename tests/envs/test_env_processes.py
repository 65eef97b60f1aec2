"""Env processes give the same bytes as this process, fail loudly and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gymlab.core.errors import RunError
from gymlab.envs.engines.gymnasium import GymnasiumEngine
from gymlab.envs.engines.processes import ProcessEngine, choose_vectorization
from gymlab.envs.settings import EnvSettings
from tests.stepping import actions, dump, play, sync
from tests.waiting import wait_until_gone


@pytest.mark.parametrize("env", ["CartPole-v1", "LunarLander-v3", "tests.example_envs:Custom-v0"])
def test_processes_give_the_same_bytes(env: str) -> None:
    settings = EnvSettings(id=env, wrappers=({"sticky_actions": 0.2}, {"scale_reward": 2.0}))
    with (
        GymnasiumEngine(settings, 5, 3) as here,
        ProcessEngine(settings, 5, 3, workers=2) as there,
    ):
        moves = actions(here, 150)
        assert dump(here.reset()) == dump(there.reset())
        assert play(here, moves) == play(there, moves)
        assert {k: v.tobytes() for k, v in here.snapshot().items()} == {
            k: v.tobytes() for k, v in there.snapshot().items()
        }
        assert here.spaces == there.spaces


def test_env_processes_never_load_jax() -> None:
    import jax  # noqa: F401 - it is loaded here, and must not be there

    with sync("tests.example_envs:Modules-v0", 2) as here:
        assert here.reset().obs.tolist() == [1, 1]
    with ProcessEngine(EnvSettings(id="tests.example_envs:Modules-v0"), 2, 0, workers=2) as there:
        assert there.reset().obs.tolist() == [0, 0]
        assert there.step(np.zeros(2, int)).obs.tolist() == [0, 0]


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    stat = Path(f"/proc/{pid}/stat")  # one that nobody has waited for yet still has a number
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_killed_worker_is_noticed_at_once_and_none_is_left() -> None:
    engine = ProcessEngine(EnvSettings(id="CartPole-v1"), 6, 0, workers=2)
    engine.reset()
    pids = engine.pids
    os.kill(pids[1], signal.SIGKILL)
    with pytest.raises(
        RunError, match=rf"env process 1 \(pid {pids[1]}\) with envs 3-5 of CartPole-v1 was killed by signal 9"
    ):
        play(engine, [np.zeros(6, int)] * 3)
    wait_until_gone(pids)
    engine.close()


def test_a_silent_worker_is_given_up_after_the_timeout() -> None:
    engine = ProcessEngine(
        EnvSettings(id="tests.example_envs:Slow-v0", kwargs={"seconds": 60.0}), 2, 0, workers=1, timeout=5.0
    )
    engine.reset()
    engine._timeout = 0.5
    with pytest.raises(RunError, match=r"with envs 0-1 of tests.example_envs:Slow-v0 did not answer for 0.5 s"):
        engine.step(np.zeros(2, int))
    wait_until_gone(engine.pids)


ORPHANS = """
import os, signal, threading, time
import numpy as np
from gymlab.envs.engines.processes import ProcessEngine
from gymlab.envs.settings import EnvSettings

engine = ProcessEngine(EnvSettings(id="tests.example_envs:Slow-v0", kwargs={"seconds": 60.0}), 2, 0, workers=2)
engine.reset()
print(*engine.pids, flush=True)
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
engine.step(np.zeros(2, int))
"""


def test_workers_end_with_their_parent_even_inside_a_hanging_env() -> None:
    done = subprocess.run([sys.executable, "-c", ORPHANS], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2
    wait_until_gone(pids)


SCRIPT = """
import sys
import gymnasium
import numpy as np
from gymlab.envs.engines.processes import ProcessEngine
from gymlab.envs.settings import EnvSettings
from tests.example_envs import Forever

gymnasium.register("Mine-v0", entry_point=Forever, max_episode_steps=3)
engine = ProcessEngine(EnvSettings(id="Mine-v0"), 2, 0, workers=2)
engine.reset()
for _ in range(3):
    step = engine.step(np.zeros(2, int))
print(step.truncated.tolist())
"""


def test_a_script_needs_no_main_guard_and_may_register_envs_itself(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-X", "dev", str(script)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    assert done.stdout == "[True, True]\n"
    assert done.stderr == ""
    assert done.returncode == 0


def test_light_envs_stay_here_and_slow_ones_get_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gymlab.envs.engines.processes.cores_now", lambda: 2)
    assert choose_vectorization(EnvSettings(id="CartPole-v1"), 8)[0] == "sync"
    kind, why = choose_vectorization(EnvSettings(id="tests.example_envs:Slow-v0"), 8)
    assert kind == "processes"
    assert why.endswith("ms per env step, 2 cores")
    assert choose_vectorization(EnvSettings(id="tests.example_envs:Slow-v0"), 1) == ("sync", "one env")
    assert choose_vectorization(EnvSettings(id="tests.example_envs:Masked-v0"), 8)[0] == "sync"
