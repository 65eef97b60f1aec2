"""Saved models: safetensors and JSON in a zip, verified, and safe to take from strangers."""

import io
import json
import shutil
import zipfile

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from gymlab.core.errors import GymlabError, RunError, UserError
from gymlab.core.types import Spaces
from gymlab.sb3 import A2C, PPO, make_vec_env
from gymlab.sb3.saving import spaces_from_json, spaces_to_json
from gymlab.training.named_tensors import to_tensors
from tests.example_envs import Custom, Variable

TINY = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "policy_kwargs": {"net_arch": [4]}, "seed": 0}
OBS = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    model = PPO("MlpPolicy", "CartPole-v1", learning_rate=lambda left: 1e-3 * left, **TINY)
    path = tmp_path_factory.mktemp("models") / "deep" / "model"
    model.learn(64).save(path)
    return model, path.with_suffix(".zip")


def rewritten(path, target, change, compression=zipfile.ZIP_STORED):
    """A copy of a model file with `change(name, data) -> data` applied to each member."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w", compression) as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return target


def with_json(**changes):
    def change(name, data):
        return data if name != "model.json" else json.dumps({**json.loads(data), **changes}).encode()

    return change


def test_predictions_survive_the_file(saved):
    model, path = saved
    loaded = PPO.load(path)
    np.testing.assert_array_equal(loaded.predict(OBS, deterministic=True)[0], model.predict(OBS, deterministic=True)[0])
    ours, theirs = model.get_parameters(), loaded.get_parameters()
    for part, tensors in ours.items():
        for name, array in tensors.items():
            np.testing.assert_array_equal(array, theirs[part][name])
    assert loaded.num_timesteps == 64
    assert loaded.seed == 0
    assert loaded.observation_space == model.observation_space


def test_the_file_holds_tensors_and_json_only_and_is_the_same_each_time(saved):
    model, path = saved
    with zipfile.ZipFile(path) as archive:
        assert sorted(archive.namelist()) == ["model.json", "policy.safetensors", "state.safetensors"]
    first, second = io.BytesIO(), io.BytesIO()
    model.save(first)
    model.save(second)
    assert first.getvalue() == second.getvalue() == path.read_bytes()
    assert PPO.load(io.BytesIO(first.getvalue())).num_timesteps == 64


def test_a_sampled_function_is_still_a_schedule(saved):
    _, path = saved
    rate = PPO.load(path)._recipe(objects=False).algorithm.settings.learning_rate
    assert rate.at(0.25) == pytest.approx(7.5e-4)


def test_arguments_can_be_changed_while_loading(saved):
    _, path = saved
    model = PPO.load(path, learning_rate=1e-4, n_steps=64, device="cpu")
    recipe = model._recipe(objects=False)
    assert (recipe.algorithm.settings.learning_rate.start, recipe.n_steps) == (1e-4, 64)
    with pytest.raises(UserError, match="policy_kwargs belongs to the saved weights"):
        PPO.load(path, policy_kwargs={})
    with pytest.raises(UserError, match="did you mean 'n_steps'"):
        PPO.load(path, n_step=3)


def test_a_model_goes_on_with_another_number_of_envs(saved):
    _, path = saved
    model = PPO.load(path, env=make_vec_env("CartPole-v1", n_envs=3))
    before = model.get_parameters()["policy"]
    state, clock = model._begin(model._setup(objects=False), reset=False)
    assert state.groups[0].obs.shape == (3, 4)
    assert (clock.updates, clock.env_steps) == (2, 64)  # the clock goes on, in updates of 3 x 32 steps
    for name, tensor in to_tensors(model.agent.policy(state)).items():
        np.testing.assert_array_equal(tensor, before[name])


def test_an_env_object_must_be_given_again(tmp_path):
    model = PPO("MultiInputPolicy", Custom(), **TINY)
    model.save(tmp_path / "custom")
    loaded = PPO.load(tmp_path / "custom")
    obs = model.observation_space.sample()
    np.testing.assert_array_equal(loaded.predict(obs, deterministic=True)[0], model.predict(obs, deterministic=True)[0])
    assert loaded.get_env() is None
    with pytest.raises(UserError, match=r"has no env: give it one by PPO.load\(path, env=env\)"):
        loaded.learn(32)
    with pytest.raises(UserError, match="is not the model's"):
        PPO.load(tmp_path / "custom", env=Variable())
    assert PPO.load(tmp_path / "custom", env=Custom()).get_env().num_envs == 1


def test_the_wrong_class_is_named(saved):
    _, path = saved
    with pytest.raises(UserError, match=r"load it with PPO\.load"):
        A2C.load(path)


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(UserError, match=r"there is no model .*none\.zip"):
        PPO.load(tmp_path / "none")


@pytest.mark.parametrize("name", ["policy.safetensors", "state.safetensors"])
def test_a_flipped_byte_is_found(saved, tmp_path, name):
    def flip(member, data):
        return data[:-1] + bytes([data[-1] ^ 1]) if member == name else data

    with pytest.raises(RunError, match=f"damaged: {name}"):
        PPO.load(rewritten(saved[1], tmp_path / "x.zip", flip))


def test_compressed_members_are_not_unpacked(saved, tmp_path):
    bomb = rewritten(saved[1], tmp_path / "x.zip", lambda _, data: data, zipfile.ZIP_DEFLATED)
    with pytest.raises(RunError, match="compressed"):
        PPO.load(bomb)


def test_a_member_must_be_there_once(saved, tmp_path):
    twice = tmp_path / "twice.zip"
    shutil.copy(saved[1], twice)
    with zipfile.ZipFile(twice, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("policy.safetensors", b"other")
    with pytest.raises(RunError, match="2 times"):
        PPO.load(twice)


def test_other_members_are_never_read(saved, tmp_path):
    more = tmp_path / "more.zip"
    shutil.copy(saved[1], more)
    with zipfile.ZipFile(more, "a") as archive:
        archive.writestr("../../evil.py", b"raise SystemExit")
        archive.writestr("data.pkl", b"cos\nsystem\n")
    assert PPO.load(more).num_timesteps == 64
    assert not (tmp_path.parent.parent / "evil.py").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 99},
        {"arguments": {"policy": "MlpPolicy", "policy_kwargs": {"features_extractor_class": "os:system"}}},
        {"arguments": {"policy": "MlpPolicy", "n_steps": "many"}},
        {"arguments": None},
        {"spaces": {"observation": {"type": "Box"}}},
        {"spaces": {"observation": {"type": "Discrete", "n": 2**60, "start": 0}}},
        {"clock": {"updates": 1, "hours": 3}},
        {"n_envs": 10**9},
        {"files": {}},
        {"class": "os.system"},
        {"env": {"id": "CartPole-v1", "more": 1}},
    ],
)
def test_a_damaged_description_is_an_error_and_nothing_else(saved, tmp_path, changes):
    with pytest.raises(GymlabError):
        PPO.load(rewritten(saved[1], tmp_path / "x.zip", with_json(**changes)))


def test_a_file_cannot_make_us_import_a_module(saved, tmp_path):
    (tmp_path / "trap.py").write_text("raise SystemExit('ran')")
    env = {"id": "trap:Env-v0", "kwargs": {}}
    model = PPO.load(rewritten(saved[1], tmp_path / "x.zip", with_json(env=env)))
    assert model.get_env() is None
    with pytest.raises(UserError, match="has no env"):
        model.learn(32)


def test_files_of_sb3_and_other_files_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "sb3.zip", "w") as archive:
        archive.writestr("policy.pth", b"")
        archive.writestr("data", b"{}")
    with pytest.raises(UserError, match="saved by Stable-Baselines3: it holds pickles"):
        PPO.load(tmp_path / "sb3.zip")
    (tmp_path / "text.zip").write_text("no zip")
    with pytest.raises(RunError, match="not a model file or damaged"):
        PPO.load(tmp_path / "text.zip")


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-1, 1, (2, 3)),
        spaces.Box(np.array([-np.inf, 0]), np.array([np.inf, 4.8]), dtype=np.float64),
        spaces.Box(0, 255, (4, 4, 3), np.uint8),
        spaces.Discrete(5, start=-2),
        spaces.MultiDiscrete([3, 2]),
        spaces.MultiBinary(3),
        spaces.MultiBinary((2, 3)),
        spaces.Tuple([spaces.Discrete(2), spaces.Dict({"a": spaces.Box(0, 1), "b": spaces.Discrete(3)})]),
        gymnasium.make("CartPole-v1").observation_space,
    ],
)
def test_spaces_survive_json(space):
    found = Spaces(space, spaces.Discrete(2), True, 500)
    assert spaces_from_json(json.loads(json.dumps(spaces_to_json(found)))) == found
