"""Stable-Baselines3's arguments: tables of all of them, their binding, and their translation to a recipe.

The tables give the constructors their signatures and the documentation page its rows.
"""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from gymlab.algorithms.registry import ALGORITHMS
from gymlab.algorithms.settings import OPTIMIZER_NAMES
from gymlab.core.errors import UserError, suggestion
from gymlab.core.schedules import parse_schedule
from gymlab.envs.settings import EnvSettings
from gymlab.networks.actor_critic import ACTIVATIONS
from gymlab.networks.settings import PolicySettings
from gymlab.recipes.schema import AlgorithmChoice, NormalizeSettings, Recipe, Steps

REQUIRED: Any = inspect.Parameter.empty


@dataclass(frozen=True)
class Argument:
    """One argument. `refuse` and `warn` are messages for a value other than the default."""

    name: str
    default: Any
    here: str  # for the documentation
    refuse: str = ""
    warn: str = ""


def _refused(name: str, default: Any, reason: str) -> Argument:
    return Argument(name, default, f"refused unless {default!r}: {reason}", refuse=reason)


def _ignored(name: str, default: Any, reason: str) -> Argument:
    return Argument(name, default, f"accepted with a warning: {reason}", warn=reason)


_POLICY = Argument(
    "policy",
    REQUIRED,
    '`"MlpPolicy"`, `"CnnPolicy"` or `"MultiInputPolicy"`: what reads an observation follows from its space; '
    '`"CnnPolicy"` shares it between policy and value, with no layers behind it; given a `net_arch`, each has its own',
)
_ENV = Argument(
    "env",
    None,
    "an id (trained on the compiled port where there is one), a `gymnasium.Env` (used as it is, in this process) or a "
    "vec env of `gymlab.sb3`",
)
_GAMMA = Argument("gamma", 0.99, "the same")
_SDE = (
    Argument("use_sde", False, "the same (gSDE)"),
    Argument("sde_sample_freq", -1, "the same; new noise also at the start of an episode"),
)
_BUFFERS = (
    _refused(
        "rollout_buffer_class", None, "a rollout is one block of arrays; change what is learnt in a loss of your own"
    ),
    _refused("rollout_buffer_kwargs", None, "there is no rollout buffer class"),
)
_COEFFICIENTS = (
    Argument("ent_coef", 0.0, "the same; may be a schedule"),
    Argument("vf_coef", 0.5, "the same; may be a schedule"),
    Argument("max_grad_norm", 0.5, "the same; may be a schedule"),
)
_TAIL = (
    _ignored("stats_window_size", 100, "training returns are always averaged over the last 100 episodes"),
    _ignored(
        "tensorboard_log", None, "TensorBoard files are not written; `learn(run=...)` keeps every metric in a run"
    ),
    Argument("policy_kwargs", None, "see the table below"),
    Argument("verbose", 0, "1 prints a table like SB3's, at most once a second"),
    Argument(
        "seed",
        None,
        "the same; it seeds the weights, the actions and every episode. Without one a seed is drawn: see `model.seed`",
    ),
    Argument("device", "auto", '`"auto"`, `"cpu"`, or `"cuda"` / `"gpu"` for JAX\'s GPU'),
    Argument("_init_setup_model", True, "accepted, without effect"),
    Argument("n_envs", None, "gymlab only: how many envs to make of an id; 1 by default"),
    Argument("engine", "auto", 'gymlab only: `"gymnasium"` keeps training off the compiled ports'),
    Argument("normalize", None, "gymlab only: `dict(obs=True, reward=True)`, in place of `VecNormalize`"),
)
_RATE = "a number, a function of the progress remaining (sampled at 1001 points) or gymlab's own notation (`lin_3e-4`)"

PPO = (
    _POLICY,
    _ENV,
    Argument("learning_rate", 3e-4, _RATE),
    Argument("n_steps", 2048, "the same"),
    Argument(
        "batch_size", 64, "must divide `n_steps` x envs (SB3 warns and truncates a batch); below 1, a share of it"
    ),
    Argument("n_epochs", 10, "the same"),
    _GAMMA,
    Argument("gae_lambda", 0.95, "the same"),
    Argument("clip_range", 0.2, _RATE),
    Argument("clip_range_vf", None, "the larger of the clipped and the plain error (SB3: the clipped error alone)"),
    Argument("normalize_advantage", True, "the same, with the population's std"),
    *_COEFFICIENTS,
    *_SDE,
    *_BUFFERS,
    Argument("target_kl", None, "the same: the update ends once the KL passes 1.5 times this"),
    *_TAIL,
)
A2C = (
    _POLICY,
    _ENV,
    Argument("learning_rate", 7e-4, _RATE),
    Argument("n_steps", 5, "the same"),
    _GAMMA,
    Argument("gae_lambda", 1.0, "the same"),
    *_COEFFICIENTS,
    Argument("rms_prop_eps", 1e-5, "the same"),
    Argument("use_rms_prop", True, "the same; Adam otherwise"),
    *_SDE,
    *_BUFFERS,
    Argument("normalize_advantage", False, "the same, with the population's std"),
    *_TAIL,
)
REINFORCE = (
    _POLICY,
    _ENV,
    Argument("learning_rate", 1e-3, _RATE),
    Argument("n_steps", None, "steps of each env per update; by default the env's time limit"),
    _GAMMA,
    Argument("baseline", "value", '`"value"`, `"running_mean"` or `"none"`'),
    Argument("normalize_advantage", True, "as in PPO, over the episodes that ended"),
    *_COEFFICIENTS,
    *_SDE,
    *_TAIL,
)
POLICY_KWARGS = (
    Argument("net_arch", None, "`[64, 64]` or `dict(pi=[64], vf=[128])`; layers shared before a split are refused"),
    Argument("activation_fn", "tanh", "a name or anything with one (`nn.ReLU`, `jax.nn.relu`); torch is not imported"),
    Argument("ortho_init", True, "the same; the policy's last layer is orthogonal with gain 0.01 in any case"),
    Argument("log_std_init", 0.0, "the same"),
    Argument("optimizer_class", None, "`Adam`, `AdamW`, `RAdam`, `RMSprop` or `SGD`, by name or class"),
    Argument("optimizer_kwargs", None, "`eps` only"),
    _refused("full_std", True, "gSDE always has one std per feature and action"),
    _refused("use_expln", False, "gSDE's std is an exponential"),
    _refused("squash_output", False, "actions are clipped to the Box, never squashed"),
    _refused("features_extractor_class", None, "give an encoder of your own in a recipe (`policy: {encoder: ...}`)"),
    _refused("features_extractor_kwargs", None, "there is no features extractor class"),
    _ignored("share_features_extractor", True, "there is no features extractor to share"),
    _refused("normalize_images", True, "bytes are always scaled to [0, 1]"),
)
LEARN = (
    Argument("total_timesteps", REQUIRED, "the same: whole rollouts until at least this many transitions"),
    Argument(
        "callback",
        None,
        "the same; a callback called at every step trains on the host engine and says so. With `per_step = False` in "
        "its class, `_on_step` comes once per update and compiled training stays",
    ),
    Argument("log_interval", None, "updates between tables with `verbose=1`; default as in SB3 (A2C 100, else 1)"),
    Argument("tb_log_name", None, "accepted, without effect"),
    Argument("reset_num_timesteps", True, "the same; False keeps the clocks, the random streams and the open episodes"),
    Argument("progress_bar", False, "the same, with rich; in a notebook it needs no ipywidgets"),
    Argument("run", None, "gymlab only: True or a name keeps this call as a run (metrics, checkpoints, manifest)"),
    Argument("runs_dir", None, "gymlab only: the folder of that run; by default `./runs`"),
)
PREDICT = (
    Argument("observation", REQUIRED, "the same: one observation or a batch"),
    Argument("state", None, "the same, for a policy with memory (none is built in); else handed back untouched"),
    Argument("episode_start", None, "the same, for a policy with memory"),
    Argument("deterministic", False, "the same"),
    Argument("action_masks", None, "as in sb3-contrib's `MaskablePPO`: which actions are legal"),
)
SAVE = (
    Argument("path", REQUIRED, "the same; one .zip of safetensors and JSON, never pickle. SB3 cannot read it"),
    _ignored("exclude", None, "everything is saved, so that training can go on"),
    _ignored("include", None, "nothing can be added to the file"),
)
LOAD = (
    Argument("path", REQUIRED, "the same, for files of `gymlab`; SB3's files hold pickles and are not read"),
    Argument("env", None, "the same; without one, a registered id is made again when it is needed"),
    Argument("device", "auto", "as in the constructor"),
    _ignored("custom_objects", None, "a file holds no objects that could be replaced"),
    _ignored("print_system_info", False, "`gymlab runs show` prints what a run was made with"),
    Argument("force_reset", True, "accepted; see `reset_num_timesteps`"),
    Argument(
        "**kwargs", REQUIRED, "any constructor argument but `policy` and `policy_kwargs`, in place of the saved one"
    ),
)


SAMPLES = 1000  # of a schedule that is a function
_LINEAR_TOLERANCE = 1e-9  # relative: points this close to the line between their neighbours are left out
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


def bind(owner: str, table: Sequence[Argument], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """A value for every argument of the table; UserError for unknown, missing and unsupported ones."""
    names = [argument.name for argument in table]
    if len(args) > len(names):
        raise UserError(f"{owner} takes at most {len(names)} arguments, got {len(args)}")
    values = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name not in names:
            raise UserError(f"{owner} has no argument '{name}': {suggestion(name, names)}")
        if name in values:
            raise UserError(f"{owner} got '{name}' twice")
        values[name] = value
    for argument in table:
        if argument.name not in values:
            if argument.default is REQUIRED:
                raise UserError(f"{owner} needs '{argument.name}'")
            values[argument.name] = argument.default
        else:
            check_argument(owner, argument, values[argument.name])
    return {name: values[name] for name in names}


def check_argument(owner: str, argument: Argument, value: Any) -> None:
    """Refuse, or warn about, a value that is not supported here."""
    if argument.default is REQUIRED or value is argument.default or value == argument.default:
        return
    if argument.refuse:
        raise UserError(f"{owner}: {argument.name}={value!r} is not supported: {argument.refuse}")
    if argument.warn:
        warnings.warn(f"{owner}: {argument.name} has no effect: {argument.warn}", UserWarning, stacklevel=4)


def check_arguments(owner: str, table: Sequence[Argument], values: Mapping[str, Any]) -> None:
    """`check_argument` for several arguments of a method."""
    for argument in table:
        if argument.name in values:
            check_argument(owner, argument, values[argument.name])


def signature(table: Sequence[Argument]) -> inspect.Signature:
    """A constructor's signature, for `help` and editors."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([inspect.Parameter(a.name, kind, default=a.default) for a in table])


def markdown(table: Sequence[Argument]) -> str:
    """The table as the documentation shows it."""
    rows = [f"| `{a.name}` | {'' if a.default is REQUIRED else f'`{a.default!r}`'} | {a.here} |" for a in table]
    return "\n".join(["| argument | default | in gymlab |", "|---|---|---|", *rows])


def plain_values(owner: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as JSON values, without `env`: functions are sampled, classes named."""
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
    """A function of the progress *remaining* as points over progress, without those on the line of their neighbours."""
    points = [[i / SAMPLES, float(function(1 - i / SAMPLES))] for i in range(SAMPLES + 1)]
    close = _LINEAR_TOLERANCE * max(abs(value) for _, value in points)
    corners = points[:1]
    for before, point, after in zip(points, points[1:], points[2:], strict=False):
        if abs(before[1] + after[1] - 2 * point[1]) > close:
            corners.append(point)
    return [*corners, points[-1]]


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
        values["optimizer_class"] = _named(owner, "optimizer_class", values["optimizer_class"], OPTIMIZER_NAMES, {})
    extra = [name for name in values.get("optimizer_kwargs") or {} if name != "eps"]
    if extra:
        raise UserError(f"{owner} policy_kwargs: optimizer_kwargs '{extra[0]}' is not supported: only 'eps' is")
    return values


def _net_arch(owner: str, layers: Any) -> dict[str, list[int]]:
    if isinstance(layers, list | tuple) and len(layers) == 1 and isinstance(layers[0], dict):
        layers = layers[0]  # how SB3 wrote it before 1.8
    if isinstance(layers, dict):
        unknown = [name for name in layers if name not in ("pi", "vf")]
        if not unknown:
            return {"pi": list(layers.get("pi", [])), "vf": list(layers.get("vf", []))}
        raise UserError(f"{owner} policy_kwargs: net_arch has no '{unknown[0]}': use dict(pi=[...], vf=[...])")
    if isinstance(layers, list | tuple) and not any(isinstance(part, dict) for part in layers):
        return {"pi": list(layers), "vf": list(layers)}
    raise UserError(
        f"{owner} policy_kwargs: net_arch={layers!r} is not supported: use [64, 64] or dict(pi=[64], vf=[64]); "
        "layers shared before a split are a recipe's `policy: {shared: true}`"
    )


def _named(owner: str, argument: str, value: Any, known: tuple[str, ...], aliases: Mapping[str, str]) -> str:
    """A name, or the name of a class or function."""
    name = str(value if isinstance(value, str) else getattr(value, "__name__", type(value).__name__))
    plain = aliases.get(name.lower(), name.lower())
    if plain not in known:
        raise UserError(f"{owner} policy_kwargs: {argument} '{name}' is not known: {suggestion(name, known)}")
    return plain


def _device(owner: str, device: Any) -> str:
    name = str(device).partition(":")[0]
    choices = {"auto": "auto", "cpu": "cpu", "gpu": "gpu", "cuda": "gpu"}
    if name not in choices:
        raise UserError(f"{owner}: device '{device}' is not supported: choose one of: auto, cpu, cuda")
    return choices[name]


def _schedule(owner: str, name: str, value: Any) -> Any:
    value = sampled(value) if callable(value) else value
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
    """The validated settings; UserError with the first problem, under SB3's name of the argument."""
    try:
        return kind.model_validate(dict(fields))
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0]) if first["loc"] else ""
        message = first["msg"].removeprefix("Value error, ")
        name = " ".join(part for part in (where if key not in _NAMES else "", _NAMES.get(key, key)) if part)
        got = "" if not key or "got" in message else f", got {first['input']!r}"
        raise UserError(f"{owner}: {f'{name}: ' if name else ''}{message}{got}") from error
