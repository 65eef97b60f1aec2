"""From Stable-Baselines3's arguments to a recipe, by way of plain values that a file can hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from gymlab.algorithms.registry import ALGORITHMS
from gymlab.core.errors import UserError, suggestion
from gymlab.core.schedules import parse_schedule
from gymlab.envs.settings import EnvSettings
from gymlab.networks.actor_critic import ACTIVATIONS
from gymlab.networks.settings import PolicySettings
from gymlab.recipes.schema import AlgorithmChoice, NormalizeSettings, Recipe, Steps
from gymlab.sb3.arguments import POLICY_KWARGS, bind

SAMPLES = 1000  # of a function given as a schedule
_LIKE_A_LINE = 1e-9  # how far, of the largest value, a point may lie from its neighbours' line and be left out
POLICIES = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy")
SCHEDULED = ("learning_rate", "clip_range", "clip_range_vf", "ent_coef", "vf_coef", "max_grad_norm", "target_kl")
_KL_MARGIN = 1.5  # SB3 ends an update at 1.5 times target_kl
_SETTINGS = {
    "ent_coef": "entropy_coef",
    "vf_coef": "value_coef",
    "n_epochs": "epochs",
    "clip_range_vf": "value_clip",
    "rms_prop_eps": "optimizer_eps",
}
_NAMES = {ours: theirs for theirs, ours in _SETTINGS.items()} | {
    "hidden": "policy_kwargs net_arch",
    "value_hidden": "policy_kwargs net_arch",
}
_ACTIVATIONS = {"leakyrelu": "leaky_relu", "swish": "silu"}
_OPTIMIZERS = ("adam", "rmsprop", "sgd")


def plain_values(owner: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as JSON could hold them: functions sampled, classes by name. `env` is left out."""
    plain = {name: value for name, value in values.items() if name not in ("env", "_init_setup_model")}
    _check_policy(owner, plain["policy"])
    plain["policy_kwargs"] = _plain_policy(owner, plain["policy_kwargs"] or {})
    plain["device"] = _device(owner, plain["device"])
    plain["tensorboard_log"] = None
    for name in SCHEDULED:
        if plain.get(name) is not None:
            plain[name] = _schedule(owner, name, plain[name])
    for name, value in plain.items():
        plain[name] = _json_value(owner, name, value)
    return plain


def make_recipe(
    owner: str, algorithm: str, values: Mapping[str, Any], env: EnvSettings, *, n_envs: int, time_limit: int
) -> Recipe:
    """The recipe of plain values. Its budget is a placeholder: `learn` knows the number of steps."""
    if values["n_steps"] is None:
        values = {**values, "n_steps": time_limit}
    policy = _policy_settings(owner, values)
    settings = _settings(owner, algorithm, values)
    normalize = _checked(owner, "normalize", NormalizeSettings, values["normalize"] or {})
    if values["engine"] not in ("auto", "gymnasium", "jax"):
        raise UserError(
            f"{owner}: engine={values['engine']!r}: {suggestion(str(values['engine']), ('auto', 'gymnasium', 'jax'))}"
        )
    fields = {
        "name": f"{env.id}:{algorithm}",
        "budget": Steps(count=1),
        "n_envs": n_envs,
        "n_steps": values["n_steps"],
        "engine": values["engine"],
        "device": values["device"],
        "env": env,
        "policy": policy,
        "normalize": normalize,
        "algorithm": AlgorithmChoice(name=algorithm, settings=settings),
    }
    return _checked(owner, "", Recipe, fields)


def sampled(function: Callable[[float], float]) -> list[list[float]]:
    """A function of the progress *remaining* as points of progress, without those that lie between their neighbours."""
    points = [[i / SAMPLES, float(function(1 - i / SAMPLES))] for i in range(SAMPLES + 1)]
    close = _LIKE_A_LINE * max(abs(value) for _, value in points)
    kept = points[:1]
    for before, point, after in zip(points, points[1:], points[2:], strict=False):
        if abs(before[1] + after[1] - 2 * point[1]) > close:
            kept.append(point)
    return [*kept, points[-1]]


def _check_policy(owner: str, policy: Any) -> None:
    if policy in POLICIES:
        return
    name = policy if isinstance(policy, str) else getattr(policy, "__name__", repr(policy))
    raise UserError(
        f"{owner}: policy '{name}' is not known: {suggestion(name, POLICIES)} policy_kwargs shape the network"
    )


def _plain_policy(owner: str, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    values = bind(f"{owner} policy_kwargs", POLICY_KWARGS, (), kwargs)
    values = {name: values[name] for name in kwargs}
    if values.get("net_arch") is not None:
        values["net_arch"] = _net_arch(owner, values["net_arch"])
    if "activation_fn" in values:
        values["activation_fn"] = _named(
            owner, "activation_fn", values["activation_fn"], tuple(ACTIVATIONS), _ACTIVATIONS
        )
    if values.get("optimizer_class") is not None:
        values["optimizer_class"] = _named(owner, "optimizer_class", values["optimizer_class"], _OPTIMIZERS, {})
    extra = [name for name in values.get("optimizer_kwargs") or {} if name != "eps"]
    if extra:
        raise UserError(f"{owner} policy_kwargs: optimizer_kwargs '{extra[0]}' is not supported: only 'eps' is")
    return values


def _net_arch(owner: str, given: Any) -> dict[str, list[int]]:
    if isinstance(given, list | tuple) and len(given) == 1 and isinstance(given[0], dict):
        given = given[0]  # how SB3 wrote it before 1.8
    if isinstance(given, dict):
        unknown = [name for name in given if name not in ("pi", "vf")]
        if not unknown:
            return {"pi": list(given.get("pi", [])), "vf": list(given.get("vf", []))}
        raise UserError(f"{owner} policy_kwargs: net_arch has no '{unknown[0]}': use dict(pi=[...], vf=[...])")
    if isinstance(given, list | tuple) and not any(isinstance(part, dict) for part in given):
        return {"pi": list(given), "vf": list(given)}
    raise UserError(
        f"{owner} policy_kwargs: net_arch={given!r} is not supported: use [64, 64] or dict(pi=[64], vf=[64]); "
        "layers shared before a split are a recipe's `policy: {shared: true}`"
    )


def _named(owner: str, argument: str, given: Any, known: tuple[str, ...], aliases: Mapping[str, str]) -> str:
    """A name, or the name of a class or function."""
    name = str(given if isinstance(given, str) else getattr(given, "__name__", type(given).__name__))
    plain = aliases.get(name.lower(), name.lower())
    if plain not in known:
        raise UserError(f"{owner} policy_kwargs: {argument} '{name}' is not known: {suggestion(name, known)}")
    return plain


def _device(owner: str, given: Any) -> str:
    name = str(given).partition(":")[0]
    choices = {"auto": "auto", "cpu": "cpu", "gpu": "gpu", "cuda": "gpu"}
    if name not in choices:
        raise UserError(f"{owner}: device '{given}' is not supported: choose one of: auto, cpu, cuda")
    return choices[name]


def _schedule(owner: str, name: str, given: Any) -> Any:
    value = sampled(given) if callable(given) else given
    try:
        parse_schedule(value)
    except ValueError as error:
        raise UserError(f"{owner}: {name}: {error}") from error
    return value


def _json_value(owner: str, name: str, value: Any) -> Any:
    try:
        return json.loads(json.dumps(value.item() if hasattr(value, "item") else value))
    except (TypeError, ValueError) as error:
        raise UserError(f"{owner}: {name}={value!r} is neither a number nor text nor a list of them") from error


def _policy_settings(owner: str, values: Mapping[str, Any]) -> PolicySettings:
    kwargs = values["policy_kwargs"]
    units = [] if values["policy"] == "CnnPolicy" else [64, 64]  # its heads sit on the convolutions' 512 features
    arch = kwargs.get("net_arch") or {"pi": units, "vf": units}
    every = values["sde_sample_freq"]
    fields = {
        "hidden": arch["pi"],
        "value_hidden": arch["vf"] if arch["vf"] != arch["pi"] else None,
        "shared": values["policy"] == "CnnPolicy" and not arch["pi"] + arch["vf"],
        "activation": kwargs.get("activation_fn", "tanh"),
        "ortho_init": kwargs.get("ortho_init", True),
        "log_std_init": kwargs.get("log_std_init", 0.0),
        "exploration": "gsde" if values["use_sde"] else "gaussian",
        "gsde_every": every if every > 0 else values["n_steps"],
    }
    return _checked(owner, "policy_kwargs", PolicySettings, fields)


def _settings(owner: str, algorithm: str, values: Mapping[str, Any]) -> Any:
    kind = ALGORITHMS[algorithm].Settings
    fields = {_SETTINGS.get(name, name): value for name, value in values.items()}
    fields = {name: value for name, value in fields.items() if name in kind.model_fields}
    if values.get("use_rms_prop") is False:
        fields["optimizer"] = "adam"
    if values["policy_kwargs"].get("optimizer_class"):
        fields["optimizer"] = values["policy_kwargs"]["optimizer_class"]
    if values["policy_kwargs"].get("optimizer_kwargs"):
        fields["optimizer_eps"] = values["policy_kwargs"]["optimizer_kwargs"]["eps"]
    if fields.get("target_kl") is not None:
        if not isinstance(fields["target_kl"], int | float):
            raise UserError(f"{owner}: target_kl={fields['target_kl']!r} must be a number")
        fields["target_kl"] = _KL_MARGIN * fields["target_kl"]
    return _checked(owner, "", kind, fields)


def _checked(owner: str, where: str, kind: type[Any], fields: Mapping[str, Any]) -> Any:
    """The settings, or the first thing that is wrong with them under the name the user gave it."""
    try:
        return kind.model_validate(dict(fields))
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0]) if first["loc"] else ""
        told = first["msg"].removeprefix("Value error, ")
        name = " ".join(part for part in (where if key not in _NAMES else "", _NAMES.get(key, key)) if part)
        given = "" if not key or "got" in told else f", got {first['input']!r}"
        raise UserError(f"{owner}: {f'{name}: ' if name else ''}{told}{given}") from error
