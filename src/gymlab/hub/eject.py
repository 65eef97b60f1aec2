"""`gymlab eject`: a recipe as one readable file of JAX that trains to the same weights without gymlab."""

from __future__ import annotations

import math
import textwrap
from importlib import resources
from typing import Any

import numpy as np
from gymnasium import spaces

from gymlab.algorithms.optimizers import decay_rate
from gymlab.core.clock import Clock
from gymlab.core.errors import UserError, suggestion
from gymlab.core.schedules import Schedule
from gymlab.envs.ports.port import JaxEnv
from gymlab.envs.ports.registry import PORTS
from gymlab.envs.ports.tabular import Tabular
from gymlab.envs.registry import resolve_id
from gymlab.envs.settings import Part
from gymlab.hub.port_source import port_source, state_type
from gymlab.hub.source_template import Blanks, fill
from gymlab.networks.encoders import feature_count
from gymlab.networks.settings import PolicySettings
from gymlab.recipes.schema import Recipe
from gymlab.session.build import make_plan
from gymlab.session.choose_engine import compiled_env

# An algorithm's own parts, between the networks and the loop. To add one: write its part, list it here and in _TITLES.
ALGORITHM_PARTS = {
    "ppo": ("learner", "advantages", "ppo"),
    "a2c": ("learner", "advantages", "a2c"),
    "reinforce": ("pending", "learner", "reinforce"),
}
_TITLES = {"ppo": "PPO", "a2c": "A2C", "reinforce": "REINFORCE"}
_OPTIMIZERS = {"adam": "Adam", "adamw": "AdamW", "rmsprop": "RMSprop", "sgd": "gradient descent"}
_BASELINES = {"value": "its value", "running_mean": "the mean return", "none": "nothing"}
# Keys that the parts know, or that change nothing in the weights. All others must have their default.
_KNOWN_KEYS = {
    "": "name budget n_envs n_steps engine device workers env policy normalize algorithm stop eval checkpoints video "
    "metrics alerts features imports",
    "env": "id kwargs max_episode_steps action_mask actions observations links solved_at on_error timeout",
    "policy": "hidden value_hidden activation shared ortho_init log_std_init exploration gsde_every",
    "normalize": "obs reward clip",
    "algorithm": "learning_rate gamma entropy_coef value_coef max_grad_norm optimizer optimizer_eps weight_decay "
    "gae_lambda normalize_advantage clip_range value_clip batch_size epochs target_kl baseline stale",
}
_PRINTED_LINES = 20  # of a whole run
_WIDTH = 118


def eject(recipe: Recipe, command: str) -> str:
    """The file. `command` is how the recipe was named on the command line.

    UserError names the first key for which no file can be written.
    """
    _refuse_unknown(recipe)
    port, reason = compiled_env(recipe, None)
    if port is None:
        known = suggestion(recipe.env.id, PORTS) if resolve_id(recipe.env.id).id not in PORTS else "use the defaults"
        raise UserError(f"env.id={recipe.env.id} cannot be ejected ({reason}): {known}")
    blanks = _env_blanks(port, recipe)
    for more in (_network_blanks(recipe, blanks), _algorithm_blanks(recipe), _run_blanks(recipe, command)):
        blanks = Blanks(blanks.flags | more.flags, blanks.values | more.values)
    env = fill(_part("table_env"), blanks) if isinstance(port, Tabular) else port_source(port)
    parts = ("actor_critic", *ALGORITHM_PARTS[recipe.algorithm.name], "main")
    body = [env, *(fill(_part(part), blanks) for part in parts)]
    blanks.flags["uses_math"] = not blanks.flags["discrete"] or any("math." in text for text in body)
    return "\n\n\n".join(text.strip("\n") for text in [fill(_part("head"), blanks), *body]) + "\n"


def _part(name: str) -> str:
    return (resources.files("gymlab.hub") / "parts" / f"{name}.txt").read_text(encoding="utf-8")


def _refuse_unknown(recipe: Recipe) -> None:
    """UserError for the first setting that the parts do not know, with the nearest one that they do."""
    name = recipe.algorithm.name
    settings = recipe.algorithm.settings
    if name not in ALGORITHM_PARTS:
        raise UserError(f"algorithm '{name}' cannot be ejected: {suggestion(name, ALGORITHM_PARTS)}")
    if settings.optimizer not in _OPTIMIZERS:
        nearest = suggestion(settings.optimizer, _OPTIMIZERS)
        raise UserError(f"{name}.optimizer={settings.optimizer} cannot be ejected: {nearest}")
    if recipe.engine not in ("auto", "jax"):
        raise UserError(f"engine={recipe.engine} cannot be ejected: use engine=jax")
    blocks = {"": recipe, "env": recipe.env, "policy": recipe.policy, "normalize": recipe.normalize, name: settings}
    for block, model in blocks.items():
        known = _KNOWN_KEYS.get(block, _KNOWN_KEYS["algorithm"]).split()
        for key, field in type(model).model_fields.items():
            value = getattr(model, key)
            default = field.get_default(call_default_factory=True)
            if key not in known and value != default:
                path = f"{block}.{key}".lstrip(".")
                raise UserError(f"{path}={_as_text(value)} cannot be ejected: use {path}={_as_text(default)}")


def _as_text(value: object) -> str:
    """A setting's value, roughly as it is written on the command line."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_as_text, value))}]"
    return "null" if value is None else value.name if isinstance(value, Part) else str(value)


def _env_blanks(port: JaxEnv, recipe: Recipe) -> Blanks:
    table = port if isinstance(port, Tabular) else None
    observation: Any = port.observation_space
    action: Any = port.action_space
    one_hot = isinstance(observation, spaces.Discrete)
    discrete = isinstance(action, spaces.Discrete)
    resolved = resolve_id(recipe.env.id)
    kwargs = {**resolved.kwargs, **recipe.env.kwargs}
    flags = {
        "table_env": table is not None,
        "one_start": table is not None and len(table.starts) == 1,
        "chance": table is not None and table.probability.shape[-1] > 1,
        "masked": table is not None and table.mask is not None and recipe.env.action_mask,
        "one_hot": one_hot,
        "box_obs": not one_hot,
        "discrete": discrete,
    }
    values = {
        "env_id": resolved.id,
        "env_kwargs": "".join(f", {name}={value!r}" for name, value in kwargs.items()),
        "max_episode_steps": port.max_episode_steps,
        "state_type": state_type(port) if table is None else "Array",
        "feature_count": feature_count(observation),
        "features": "N_STATES" if one_hot else "OBS_SIZE",
        "n_actions": int(action.n) if discrete else 0,
        "action_size": 0 if discrete else math.prod(action.shape),
        "action_low": 0 if discrete else _same_for_all(action.low),
        "action_high": 0 if discrete else _same_for_all(action.high),
        "outputs": "N_ACTIONS" if discrete else "ACTION_SIZE",
        "policy_type": "Array" if discrete else "tuple[Array, Array]",
        "policy_words": "log-probabilities of the actions" if discrete else "mean and log std of the actions",
    }
    return Blanks(flags, values)


def _same_for_all(bounds: np.ndarray) -> float:
    assert np.ptp(bounds) == 0, "the actions of a port have one bound"
    return float(bounds.flat[0])


def _network_blanks(recipe: Recipe, env: Blanks) -> Blanks:
    policy = recipe.policy
    hidden = _hidden(policy)
    continuous = not env.flags["discrete"]
    flags = {
        "shared": policy.shared,
        "ortho_init": policy.ortho_init,
        "wide": max((*policy.hidden, *hidden.get("value_trunk", ())), default=0) > 512,
        "gsde": continuous and policy.exploration == "gsde",
        "gaussian": continuous and policy.exploration == "gaussian",
        "normalize_obs": recipe.normalize.obs and env.flags["box_obs"],
        "normalize_reward": recipe.normalize.reward,
    }
    values = {
        "hidden": repr(hidden).replace("'", '"'),
        "latent": policy.hidden[-1] if policy.hidden else env.values["feature_count"],
        "activation": "jnp.tanh" if policy.activation == "tanh" else f"jax.nn.{policy.activation}",
        "log_std_init": policy.log_std_init,
        "gsde_every": policy.gsde_every,
        "clip": recipe.normalize.clip,
    }
    return Blanks(flags, values)


def _hidden(policy: PolicySettings) -> dict[str, tuple[int, ...]]:
    """The hidden layers of each trunk."""
    if policy.shared:
        return {"policy_trunk": policy.hidden}
    own = policy.hidden if policy.value_hidden is None else policy.value_hidden
    return {"policy_trunk": policy.hidden, "value_trunk": own}


def _algorithm_blanks(recipe: Recipe) -> Blanks:
    name = recipe.algorithm.name
    settings: Any = recipe.algorithm.settings
    rollout = recipe.n_envs * recipe.n_steps
    size = settings.minibatch_size(rollout) if name == "ppo" else rollout
    baseline = settings.baseline if name == "reinforce" else "value"
    flags = {
        "ppo": name == "ppo",
        "minibatches": size < rollout,
        "value_clip": name == "ppo" and settings.value_clip is not None,
        "target_kl": name == "ppo" and settings.target_kl is not None,
        "reinforce": name == "reinforce",
        "value_baseline": baseline == "value",
        "running_mean": baseline == "running_mean",
        "stale_ratio": name == "reinforce" and settings.stale == "ratio",
        "normalize_advantage": settings.normalize_advantage,
        "adam": settings.optimizer in ("adam", "adamw"),
        "rmsprop": settings.optimizer == "rmsprop",
        "weight_decay": decay_rate(settings) > 0,
    }
    values = {
        "title": _TITLES[name],
        "batch_size": size,
        "epochs": settings.epochs if name == "ppo" else 1,
        "minibatch_words": "shuffled minibatches" if size < rollout else "the whole rollout, several times",
        "baseline_words": _BASELINES[baseline],
        "optimizer_name": _OPTIMIZERS[settings.optimizer],
        "optimizer_eps": settings.optimizer_eps,
        "weight_decay": decay_rate(settings),
    }
    return Blanks(flags, values)


def _run_blanks(recipe: Recipe, command: str) -> Blanks:
    updates = make_plan(recipe, recipe.budget).left(Clock())
    schedules = recipe.algorithm.settings.schedules()
    written_by = f"Written by: gymlab eject {command}".replace("\\", "\\\\").replace('"', '\\"')
    values = {
        "written_by": textwrap.fill(written_by, _WIDTH, break_on_hyphens=False),
        "n_envs": recipe.n_envs,
        "n_steps": recipe.n_steps,
        "updates": updates,
        "print_every": max(1, updates // _PRINTED_LINES),
        "steps_per_update": recipe.n_steps * (recipe.n_envs if recipe.budget.clock == "env_steps" else 1),
        "budget": recipe.budget.count,
        "schedules": "\n".join(f'        "{name}": {formula(schedule)},' for name, schedule in schedules.items()),
    }
    return Blanks({"scheduled": any(schedule.varies for schedule in schedules.values())}, values)


def formula(schedule: Schedule) -> str:
    """A schedule as Python of `progress`, with the operations of `Schedule.at` in the same order."""
    if not schedule.varies:
        return repr(schedule.values[0])
    if schedule.points:
        where, values = zip(*schedule.points, strict=True)
        text = f"np.interp(progress, {list(where)}, {list(values)})"
    elif schedule.shape == "constant":
        text = f"{schedule.start!r} if progress < {schedule.finish!r} else {schedule.end!r}"
    else:
        text = _curve(schedule)
    return text if schedule.minimum == -math.inf else f"max({text}, {schedule.minimum!r})"


def _curve(schedule: Schedule) -> str:
    start = schedule.start
    end = schedule.end
    share = "progress"
    if (schedule.begin, schedule.finish) != (0.0, 1.0):
        share = f"np.clip((progress - {schedule.begin!r}) / {schedule.finish - schedule.begin!r}, 0.0, 1.0)"
    if schedule.shape == "linear":
        return f"{start!r} * (1.0 - {share})" + (f" + {end!r} * {share}" if end else "")
    if schedule.shape == "cosine":
        return f"{end!r} + {start - end!r} * 0.5 * (1.0 + math.cos(math.pi * {share}))"
    return f"math.exp({math.log(start)!r} * (1.0 - {share}) + {math.log(end)!r} * {share})"
