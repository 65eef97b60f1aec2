"""Peer benchmark: a recipe's PPO as Stable-Baselines3 arguments, measured in the peer's own venv."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from gymlab.algorithms.ppo import PPOSettings
from gymlab.campaigns.bench.measure import Measured, measure_process
from gymlab.core.errors import UserError
from gymlab.core.schedules import Schedule
from gymlab.core.types import Json
from gymlab.recipes.schema import Recipe

SCRIPT = Path(__file__).with_name("peer_script.py")
_NAMES = {
    "learning_rate": "learning_rate",
    "gamma": "gamma",
    "entropy_coef": "ent_coef",
    "value_coef": "vf_coef",
    "max_grad_norm": "max_grad_norm",
    "gae_lambda": "gae_lambda",
    "clip_range": "clip_range",
    "epochs": "n_epochs",
    "normalize_advantage": "normalize_advantage",
    "target_kl": "target_kl",
}
_SCHEDULED = ("learning_rate", "clip_range")  # what the peer takes as a function


@dataclass(frozen=True)
class PeerWork:
    """The argument of `peer_script.py`. A setting is a number or `{"linear": start}`."""

    env: str
    n_envs: int
    steps: int
    settings: dict[str, Json]
    network: dict[str, Json] = field(default_factory=dict)  # the peer's policy_kwargs
    peer: str = "sb3"
    pictures: bool = False
    processes: bool = False


def same_work(recipe: Recipe, steps: int) -> PeerWork:
    """A recipe's training as the peer's arguments. UserError where the peer cannot do the same."""
    missing = _missing(recipe)
    if missing:
        raise UserError(
            f"{recipe.name} cannot be trained by the peer as it is: {', '.join(missing)}. "
            "Leave --peer out, or compare CartPole-v1:ppo or LunarLander-v3:ppo."
        )
    chosen = recipe.algorithm.settings
    assert isinstance(chosen, PPOSettings)
    settings = {theirs: _value(ours, getattr(chosen, ours)) for ours, theirs in _NAMES.items()}
    settings |= {"n_steps": recipe.n_steps, "batch_size": chosen.minibatch_size(recipe.n_envs * recipe.n_steps)}
    hidden = list(recipe.policy.hidden)
    network: dict[str, Json] = {
        "net_arch": {"pi": hidden, "vf": list(recipe.policy.value_hidden or hidden)},
        "activation_fn": recipe.policy.activation,
    }
    return PeerWork(str(recipe.env.id), recipe.n_envs, steps, settings, network)


def _missing(recipe: Recipe) -> list[str]:
    """Parts of a recipe that the script cannot pass on."""
    chosen = recipe.algorithm
    normalize = recipe.normalize
    found = {
        f"algorithm {chosen.name}": chosen.name != "ppo",
        "env.wrappers": bool(recipe.env.wrappers),
        "env.kwargs": bool(recipe.env.kwargs),
        "normalize": bool(normalize.obs or normalize.reward),
        "policy.encoder": recipe.policy.encoder is not None,
        "policy.shared": recipe.policy.shared,
        f"policy.activation={recipe.policy.activation}": recipe.policy.activation not in ("tanh", "relu"),
        f"env {recipe.env.id}": ":" in str(recipe.env.id) or "/" in str(recipe.env.id),
    }
    return [name for name, stands in found.items() if stands]


def _value(name: str, setting: Json | Schedule) -> Json:
    if not isinstance(setting, Schedule):
        return setting
    if not setting.varies:
        return setting.start
    straight = setting.shape == "linear" and (setting.begin, setting.finish, setting.end) == (0.0, 1.0, 0.0)
    if not straight or setting.points or name not in _SCHEDULED:
        raise UserError(f"{name}: the peer knows constants and, for {' and '.join(_SCHEDULED)}, lines to 0")
    return {"linear": setting.start}


def measure_peer(python: Path, work: PeerWork) -> Measured:
    """Measure one training of the peer's."""
    command = [str(python), str(SCRIPT), json.dumps(asdict(work))]
    process = measure_process(command, Path.cwd(), {**os.environ, "JAX_PLATFORMS": "cpu"})
    found: Measured = json.loads(process.lines[-1][1])
    return {**found, "whole_process_seconds": process.seconds, "peak_mb": process.peak_mb}
