"""Runs kept by `learn(run=...)`: evaluated aside from 500k steps on, and gone on with from the command line, also where
the script itself has registered the env.
"""

import json
import subprocess
import sys

import gymnasium
import pytest

from gymlab.core.errors import UserError
from gymlab.envs.registry import foreign_registration_json, register_from_manifest, registration_json
from gymlab.runs.checkpoints import load_checkpoint
from gymlab.runs.paths import RunPaths
from tests.running import assert_same_run, environment, gymlab
from tests.waiting import wait_until

WALK = """
import gymnasium, numpy as np

class Walk(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.left = float(self.np_random.uniform(-0.5, 0.5)), 10
        return np.array([self.x], np.float32), {}

    def step(self, action):
        self.x = float(np.clip(self.x + (0.1 if action else -0.1), -1, 1))
        self.left -= 1
        return np.array([self.x], np.float32), 1.0 - abs(self.x), self.left == 0, False, {}

gymnasium.register("Walk-v0", entry_point=Walk, max_episode_steps=50)
"""
SCRIPT = """
import sys
{imports}
from gymlab import PPO
from tests.waiting import wait_until

env, steps, run = sys.argv[1:]
model = PPO("MlpPolicy", env, n_steps=2048, batch_size=512, n_epochs=1, seed=0, policy_kwargs={{"net_arch": [8]}})
model.learn(int(steps), run=run)
"""


@pytest.fixture
def script(folder):
    """Starts the script; where its env comes from is told by `imports`."""

    def begin(env, steps, run, imports="import walk"):
        (folder / "walk.py").write_text(WALK)
        (folder / "script.py").write_text(SCRIPT.format(imports=imports))
        return subprocess.Popen(
            [sys.executable, "script.py", env, str(steps), run], cwd=folder, env=environment(),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    return begin


def done(process):
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output


@pytest.mark.slow
def test_a_run_of_an_env_that_a_script_registers_is_known_to_the_command_line(script, folder):
    done(script("Walk-v0", 4096, "one"))
    told = json.loads(gymlab("eval", "one", "--episodes", "2", "--json", cwd=folder).stdout)
    assert told["eval"]["greedy"]["length"] == 10
    (folder / "walk.py").unlink()
    lost = gymlab("eval", "one", cwd=folder, check=False)
    assert lost.returncode == 2
    assert "Walk-v0 is walk:Walk, which cannot be imported from here" in lost.stderr


def test_what_a_run_has_kept_registers_env_classes_and_nothing_else():
    def told(entry):
        return gymnasium.envs.registration.EnvSpec("Kept-v0", entry_point=entry, kwargs={"command": "true"}).to_json()

    with pytest.raises(UserError, match=r"not a gymnasium\.Env class"):
        register_from_manifest(told("os:system"))
    with pytest.raises(UserError, match="cannot be imported from here"):
        register_from_manifest(told("no_such_module:Env"))
    with pytest.raises(UserError, match="cannot be used"):
        register_from_manifest("{")
    assert "Kept-v0" not in gymnasium.registry
    try:
        register_from_manifest(told("gymnasium.envs.classic_control.cartpole:CartPoleEnv"))
        assert "Kept-v0" in gymnasium.registry
        assert foreign_registration_json("Kept-v0") is None  # every process knows where gymnasium's own are
    finally:
        gymnasium.registry.pop("Kept-v0", None)


def test_an_env_of_the_script_itself_cannot_be_told_to_other_processes():
    gymnasium.register("Own-v0", entry_point=lambda: None)
    try:
        with pytest.raises(UserError, match="other processes cannot import"):
            registration_json("Own-v0")
        assert foreign_registration_json("Own-v0") is None
    finally:
        gymnasium.registry.pop("Own-v0")


@pytest.mark.slow
@pytest.mark.parametrize("env", ["CartPole-v1", "Walk-v0"])
def test_evaluated_aside_and_killed_a_scripts_run_goes_on_exactly(env, script, folder):
    done(script(env, 500_000, "whole"))
    killed, run = script(env, 500_000, "killed"), RunPaths(folder / "runs/killed")
    wait_until(lambda: any(run.checkpoints.glob("[1-9]*")) and _pending(run), process=killed, seconds=300)
    killed.kill()
    killed.communicate()
    assert "resumed (exact)" in gymlab("resume", "killed", cwd=folder).stdout
    assert_same_run(folder / "runs/whole", run.root)
    assert "evaluating in between" not in (run.root / "run.log").read_text()


@pytest.mark.slow
def test_an_env_that_only_the_script_can_make_is_evaluated_in_between_with_the_same_result(script, folder):
    done(script("Walk-v0", 500_000, "aside"))
    mine = "import gymnasium, walk\nclass Mine(walk.Walk): pass\ngymnasium.register('Mine-v0', entry_point=Mine)"
    done(script("Mine-v0", 500_000, "between", mine.replace("=Mine)", "=Mine, max_episode_steps=50)")))
    assert "evaluating in between" in (folder / "runs/between/run.log").read_text()
    assert_same_run(folder / "runs/aside", folder / "runs/between")


def _pending(run):
    return load_checkpoint(run).info["features"]["evaluate_async"]["pending"]
