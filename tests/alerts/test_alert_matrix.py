"""Every wrapper around every classic env, for two updates: no critical alert, for nothing is broken."""

import json

import pytest

from gymlab.core.errors import UserError
from gymlab.envs.wrappers import WRAPPERS
from gymlab.recipes.resolve import resolve
from gymlab.session.session import Options
from gymlab.session.start import train

CLASSIC = ["Acrobot-v1", "CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"]
SMALL = [
    "policy.hidden=[8]", "n_envs=4", "n_steps=64", "eval.episodes=4", "eval.final_episodes=4", "checkpoints.every=100%",
]  # fmt: skip
ARGUMENTS = {
    "action_noise": {"amount": 0.3},
    "cartpole_centring": {},
    "clip_reward": {},
    "count_bonus": {},
    "flatten": {},
    "frame_skip": {"k": 3},
    "frame_stack": {"k": 3},
    "mask_actions": {"never": [1]},
    "mountain_car_energy": {"scale": 100},
    "observation_noise": {"std": 0.5},
    "one_hot": {},
    "pixels": {"size": 24},
    "previous_actions": {"k": 2, "rewards": True},
    "randomize": {},  # an env's own parameter, below
    "remap_actions": {"to": [0, 1]},
    "reward_weights": {"env": 2},
    "scale_observation": {},
    "scale_reward": {"factor": 100},
    "sticky_actions": {"probability": 0.5},
    "time_aware": {},
    "time_penalty": {"cost": 0.5},
}
ELSEWHERE = {"objects", "atari", "doom", "env_parts", "grayscale", "resize"}  # for games, pictures and MuJoCo
PARAMETERS = {
    "Acrobot-v1": {"LINK_LENGTH_1": [0.5, 2]},
    "CartPole-v1": {"gravity": [5, 15]},
    "MountainCar-v0": {"gravity": [0.001, 0.005]},
    "MountainCarContinuous-v0": {"power": [0.001, 0.01]},
    "Pendulum-v1": {"max_speed": [4, 16]},
}
# What has no meaning there, each refused with a message.
REFUSED = {
    *((env, "cartpole_centring") for env in CLASSIC if env != "CartPole-v1"),
    *((env, "mountain_car_energy") for env in CLASSIC if not env.startswith("MountainCar")),
    *((env, wrapper) for env in CLASSIC[3:] for wrapper in ("mask_actions", "remap_actions")),
}


def test_every_wrapper_has_its_place():
    assert ARGUMENTS.keys() | ELSEWHERE == WRAPPERS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("wrapper", ARGUMENTS)
@pytest.mark.parametrize("env", CLASSIC)
def test_no_wrapper_raises_a_critical_alert(env, wrapper, tmp_path):
    arguments = PARAMETERS[env] if wrapper == "randomize" else ARGUMENTS[wrapper]
    settings = [*SMALL, f"env.wrappers={json.dumps([{wrapper: arguments}])}"]
    if (env, wrapper) in REFUSED:
        with pytest.raises(UserError, match=wrapper.split("_")[0]):
            alerts_of(env, settings, tmp_path)
        return
    found = alerts_of(env, settings, tmp_path)
    assert {alert["id"]: alert["evidence"] for alert in found if alert["severity"] == "critical"} == {}


def alerts_of(env, settings, folder):
    recipe = resolve(f"{env}:ppo", settings, budget="512").recipe
    result = train(recipe, Options(full_budget=True), folder)
    return json.loads((result.run_dir / "alerts.json").read_text())["alerts"]
