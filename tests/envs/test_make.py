"""How envs are named, made and wrapped."""

from __future__ import annotations

import hashlib
import sys
from importlib.util import find_spec
from pathlib import Path

import gymnasium
import pytest
from gymnasium.wrappers import TimeLimit

from gymlab.core.errors import UserError
from gymlab.envs import registry
from gymlab.envs.make import env_stack, make_bare, make_env, split_wrappers, time_limit
from gymlab.envs.references import is_reference, load_reference, reference_hash
from gymlab.envs.registry import KNOWN_OPTIMA, known_ids, resolve_id, spec_threshold
from gymlab.envs.settings import EnvSettings
from gymlab.envs.wrappers.scale_reward import ScaleReward

pytestmark = pytest.mark.fast

USER_FILE = """
import gymnasium
from gymnasium import spaces

class Walk(gymnasium.Env):
    observation_space = spaces.Discrete(3)
    action_space = spaces.Discrete(2)

    def __init__(self, speed=1):
        self.speed = speed

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return 1, float(self.speed), False, False, {}

class Double(gymnasium.RewardWrapper):
    def reward(self, reward):
        return 2 * reward

NUMBER = 3
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine.py").write_text(USER_FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [path for path in sys.path if path])
    return tmp_path


def test_references_are_modules_or_files() -> None:
    assert is_reference("package.module:Name")
    assert is_reference("./file.py:Name")
    assert is_reference("../dir/file.py:Name")
    assert not is_reference("CartPole-v1")
    assert not is_reference("frame_stack")


def test_a_file_reference_is_loaded_once_and_hashed(here: Path) -> None:
    walk = load_reference("./mine.py:Walk")
    assert walk is load_reference("mine.py:Walk", here)
    assert reference_hash("./mine.py:Walk") == hashlib.sha256(USER_FILE.encode()).hexdigest()


def test_a_module_of_the_current_folder_is_importable(here: Path) -> None:
    (here / "only_here.py").write_text(USER_FILE)
    assert load_reference("only_here:NUMBER") == 3
    assert reference_hash("only_here:NUMBER") == hashlib.sha256(USER_FILE.encode()).hexdigest()


@pytest.mark.parametrize(
    ("ref", "told"),
    [
        ("./mine.py:Wakl", "'./mine.py' has no 'Wakl': did you mean 'Walk'?"),
        ("./mime.py:Walk", "did you mean './mine.py'?"),
        ("no_such_module:Walk", "there is no module 'no_such_module'"),
    ],
)
def test_a_wrong_reference_says_what_is_near(here: Path, ref: str, told: str) -> None:
    with pytest.raises(UserError) as error:
        load_reference(ref)
    assert told in str(error.value)


def test_a_file_that_fails_names_the_line(here: Path) -> None:
    (here / "broken.py").write_text("x = 1\nraise ValueError('not today')\n")
    with pytest.raises(UserError, match=r"ValueError: not today \(broken.py:2\)"):
        load_reference("./broken.py:x")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("CartPole-v9", "unknown environment 'CartPole-v9': did you mean 'CartPole-v1'?"),
        ("cartpole-v1", "unknown environment 'cartpole-v1': did you mean 'CartPole-v1'?"),
        ("LunarLander-v7", "did you mean 'LunarLander-v3'?"),
        ("Taxi", "did you mean 'Taxi-v4'?"),
        ("MountianCar-v0", "did you mean 'MountainCar-v0'?"),
        ("qqqq", "gymlab envs list"),
        ("tests.example_envs:Costum-v0", "did you mean 'Custom-v0'?"),
        ("tests.example_envs:Identiti", "did you mean 'Identity'?"),
        ("math:pi", "registers no environment"),
        ("tests.example_envs:", "names nothing after the ':'"),
    ],
)
def test_an_unknown_environment_names_the_nearest(text: str, told: str) -> None:
    with pytest.raises(UserError) as error:
        resolve_id(text)
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("old", "new"),
    [("Taxi-v3", "Taxi-v4"), ("LunarLander-v2", "LunarLander-v3"), ("CliffWalking-v0", "CliffWalking-v1")],
)
def test_old_ids_are_accepted_with_a_note(old: str, new: str) -> None:
    resolved = resolve_id(old)
    assert (resolved.id, resolved.kwargs) == (new, {})
    assert resolved.note == f"{old} is now called {new}"
    env = make_env(EnvSettings(id=old))
    assert env.spec is not None
    assert env.spec.id == new
    env.close()


def test_old_atari_ids_keep_their_meaning() -> None:
    resolved = registry._alias("PongNoFrameskip-v4")
    assert resolved is not None
    assert resolved.id == "ALE/Pong-v5"
    assert resolved.kwargs == {"frameskip": 1, "repeat_action_probability": 0.0}
    assert "frameskip=1" in resolved.note


def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    real = registry.importlib.util.find_spec
    absent = {"Box2D", "mujoco", "ale_py"}
    monkeypatch.setattr(registry.importlib.util, "find_spec", lambda name: None if name in absent else real(name))
    for text, extra in [("LunarLander-v3", "box2d"), ("Hopper-v5", "mujoco"), ("PongNoFrameskip-v4", "atari")]:
        with pytest.raises(UserError, match=rf"pip install 'gymlab\[{extra}\]'"):
            resolve_id(text)


@pytest.mark.skipif(find_spec("flax") is not None, reason="needs flax to be absent")
def test_a_package_without_an_extra_is_named() -> None:
    with pytest.raises(UserError, match="needs a package that is not installed: No module named 'flax'"):
        make_env(EnvSettings(id="phys2d/CartPole-v1"))


def test_known_ids_leave_out_what_cannot_be_made() -> None:
    ids = known_ids()
    assert {"CartPole-v1", "Taxi-v4", "LunarLander-v3"} <= set(ids)
    assert not {"Hopper-v2", "GymV21Environment-v0"} & set(ids)
    assert set(KNOWN_OPTIMA) <= set(ids)


def test_thresholds_come_from_the_registration() -> None:
    assert spec_threshold("CartPole-v1") == 475.0
    assert spec_threshold("Pendulum-v1") is None
    assert spec_threshold("tests.example_envs:Identity") is None


def test_envs_come_by_id_by_module_and_by_class(here: Path) -> None:
    for text in (
        "CartPole-v1",
        "tests.example_envs:Custom-v0",
        "tests.example_envs:Custom",
        "./mine.py:Walk",
        "mine:Walk",
    ):
        env = make_env(EnvSettings(id=text))
        env.reset(seed=0)
        env.step(env.action_space.sample())
        env.close()


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        (EnvSettings(id="CartPole-v1"), 500),
        (EnvSettings(id="CartPole-v1", max_episode_steps=7), 7),
        (EnvSettings(id="CartPole-v1", max_episode_steps=700), 700),
        (EnvSettings(id="CliffWalking-v1"), 1000),
        (EnvSettings(id="tests.example_envs:Forever-v0"), 10),
        (EnvSettings(id="tests.example_envs:Forever"), 1000),
    ],
)
def test_the_time_limit_is_the_setting_else_the_registered_else_1000(settings: EnvSettings, limit: int) -> None:
    env = make_env(settings)
    assert time_limit(settings) == limit
    layers = []
    inner = env
    while isinstance(inner, gymnasium.Wrapper):
        layers.append(inner)
        inner = inner.env
    assert [layer._max_episode_steps for layer in layers if isinstance(layer, TimeLimit)] == [limit]
    assert make_bare(settings).limit == limit
    env.close()


def test_training_envs_have_no_render_mode_unless_asked() -> None:
    assert make_env(EnvSettings(id="CartPole-v1")).render_mode is None
    assert make_env(EnvSettings(id="CartPole-v1"), render_mode="rgb_array").render_mode == "rgb_array"


def test_kwargs_reach_the_env_and_wrong_ones_are_named(here: Path) -> None:
    assert make_env(EnvSettings(id="./mine.py:Walk", kwargs={"speed": 4})).unwrapped.speed == 4
    with pytest.raises(UserError, match=r"env.kwargs: ./mine.py:Walk has no parameter 'sped': did you mean 'speed'"):
        make_env(EnvSettings(id="./mine.py:Walk", kwargs={"sped": 4}))
    with pytest.raises(UserError, match=r"LunarLander-v3 has no parameter 'gravty': did you mean 'gravity'"):
        make_env(EnvSettings(id="LunarLander-v3", kwargs={"gravty": -9.0}))
    with pytest.raises(UserError, match=r"could not make 'LunarLander-v3' .*gravity"):
        make_env(EnvSettings(id="LunarLander-v3", kwargs={"gravity": 5.0}))


def test_what_is_no_env_is_refused() -> None:
    with pytest.raises(UserError, match=r"not a gymnasium\.Env"):
        make_env(EnvSettings(id="collections:OrderedDict"))


def test_modules_are_imported_before_the_env_is_made(here: Path) -> None:
    (here / "registers.py").write_text(
        USER_FILE + "\ngymnasium.register('Imported-v0', entry_point='registers:Walk', max_episode_steps=5)\n"
    )
    env = make_env(EnvSettings(id="Imported-v0"), imports=("registers",))
    assert env.spec is not None
    with pytest.raises(UserError, match="there is no module 'regsters'"):
        make_env(EnvSettings(id="Imported-v0"), imports=("regsters",))


def test_wrappers_go_around_in_order_and_transforms_stay_outside(here: Path) -> None:
    settings = EnvSettings(
        id="./mine.py:Walk",
        wrappers=({"frame_skip": 3}, "./mine.py:Double", {"scale_reward": 0.5}, {"sticky_actions": 0.1}),
    )
    env = make_env(settings)
    assert env_stack(env) == [
        "Walk",
        "TimeLimit(max_episode_steps=1000)",
        "FrameSkip(k=3)",
        "Double",
        "StickyActions(probability=0.1)",
    ]
    parts, transforms = split_wrappers(settings)
    assert [part.name for part in parts] == ["frame_skip", "./mine.py:Double", "sticky_actions"]
    assert transforms == (ScaleReward(factor=0.5),)
    env.reset(seed=0)
    assert env.step(0)[1] == 6.0  # three steps of 1, doubled


def test_a_stack_without_wrappers_names_the_registered_env() -> None:
    assert env_stack(make_env(EnvSettings(id="CartPole-v1"))) == [
        "CartPoleEnv (CartPole-v1)",
        "OrderEnforcing(disable_render_order_enforcing=False)",
        "TimeLimit(max_episode_steps=500)",
    ]
