"""Every Stable-Baselines3 argument and what becomes of it here.

The tables give the constructors their signatures and the documentation page its rows.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gymlab.core.errors import UserError, suggestion

REQUIRED: Any = inspect.Parameter.empty


@dataclass(frozen=True)
class Argument:
    """One argument. `refuse` and `warn` are said when a value other than the default is given."""

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
    Argument("optimizer_class", None, "`Adam`, `RMSprop` or `SGD`, by name or class"),
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
    Argument("progress_bar", False, "the same, with rich"),
    Argument("run", None, "gymlab only: True or a name keeps this call as a run (metrics, checkpoints, manifest)"),
    Argument("runs_dir", None, "gymlab only: the folder of that run; by default `./runs`"),
)
PREDICT = (
    Argument("observation", REQUIRED, "the same: one observation or a batch"),
    Argument("state", None, "handed back untouched: there are no recurrent policies yet"),
    Argument("episode_start", None, "accepted, without effect"),
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


def bind(owner: str, table: Sequence[Argument], args: Sequence[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """A value for every argument of the table; what is unknown, missing or not done here is said by name."""
    names = [argument.name for argument in table]
    if len(args) > len(names):
        raise UserError(f"{owner} takes at most {len(names)} arguments, got {len(args)}")
    values = dict(zip(names, args, strict=False))
    for name, value in given.items():
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
            tell(owner, argument, values[argument.name])
    return {name: values[name] for name in names}


def tell(owner: str, argument: Argument, value: Any) -> None:
    """Refuse or warn where an argument's value is one that has no effect here."""
    if argument.default is REQUIRED or value is argument.default or value == argument.default:
        return
    if argument.refuse:
        raise UserError(f"{owner}: {argument.name}={value!r} is not supported: {argument.refuse}")
    if argument.warn:
        warnings.warn(f"{owner}: {argument.name} has no effect: {argument.warn}", UserWarning, stacklevel=4)


def tell_all(owner: str, table: Sequence[Argument], values: Mapping[str, Any]) -> None:
    """The same for several arguments of a method."""
    for argument in table:
        if argument.name in values:
            tell(owner, argument, values[argument.name])


def signature(table: Sequence[Argument]) -> inspect.Signature:
    """A constructor's signature, for `help` and editors."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([inspect.Parameter(a.name, kind, default=a.default) for a in table])


def markdown(table: Sequence[Argument]) -> str:
    """The table as the documentation shows it."""
    rows = [f"| `{a.name}` | {'' if a.default is REQUIRED else f'`{a.default!r}`'} | {a.here} |" for a in table]
    return "\n".join(["| argument | default | in gymlab |", "|---|---|---|", *rows])
