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
# Games, pictures, choices, Dicts.
ELSEWHERE = {"objects", "atari", "doom", "drop_keys", "env_parts", "grayscale", "keep_keys", "one_hot", "resize"}
PARAMETERS = {
    "Acrobot-v1": {"LINK_LENGTH_1": [0.5, 2]},
    "CartPole-v1": {"gravity": [5, 15]},
    "MountainCar-v0": {"gravity": [0.001, 0.005]},
    "MountainCarContinuous-v0": {"power": [0.001, 0.01]},
    "Pendulum-v1": {"max_speed": [4, 16]},
}


def test_every_wrapper_has_its_place():
    assert ARGUMENTS.keys() | ELSEWHERE == WRAPPERS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("wrapper", ARGUMENTS)
def test_no_wrapper_raises_a_critical_alert(wrapper, tmp_path):
    critical = {env: critical_alerts(env, wrapper, tmp_path / env) for env in CLASSIC}
    trained = {env: found for env, found in critical.items() if found is not None}
    assert trained, f"{wrapper} trains nowhere"
    assert not any(trained.values()), trained


def critical_alerts(env, wrapper, folder):
    """The critical alerts by id, with their evidence; None where the wrapper is refused."""
    arguments = PARAMETERS[env] if wrapper == "randomize" else ARGUMENTS[wrapper]
    settings = [*SMALL, f"env.wrappers={json.dumps([{wrapper: arguments}])}"]
    try:
        recipe = resolve(f"{env}:ppo", settings, budget="512").recipe
        result = train(recipe, Options(full_budget=True), folder)
    except UserError:
        return None
    found = json.loads((result.run_dir / "alerts.json").read_text())["alerts"]
    return {alert["id"]: alert["evidence"] for alert in found if alert["severity"] == "critical"}
