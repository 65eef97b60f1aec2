"""Saved models: a .zip of safetensors and JSON, with the model's state and its spaces.

Nothing in a file is ever executed or unpacked to disk, and everything read from it is verified.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from gymlab.core.clock import Clock
from gymlab.core.errors import FormatError, RunError, UserError
from gymlab.core.jax_keys import run_key
from gymlab.core.types import Spaces
from gymlab.envs.settings import EnvSettings
from gymlab.runs import files, tensors
from gymlab.sb3.arguments import bind, plain_values
from gymlab.sb3.env_source import saved_source
from gymlab.sb3.training import TrainingSetup
from gymlab.session.predictor import CompiledAgent
from gymlab.training.agent import Agent
from gymlab.training.named_tensors import Tensors, from_tensors, split_tensors, to_tensors
from gymlab.training.state import TrainState

if TYPE_CHECKING:
    from gymlab.sb3.model import Model

Arrays = Mapping[str, np.ndarray]
M = TypeVar("M", bound="Model")
_FIXED = ("policy", "policy_kwargs", "env")

POLICY = "policy.safetensors"
STATE = "state.safetensors"
ABOUT = "model.json"
FORMAT = 2
MOST_BYTES = 8 * 2**30  # of one tensor file
MOST_JSON_BYTES = 16 * 2**20
_DATE = (1980, 1, 1, 0, 0, 0)  # the same model gives the same bytes
_MOST_NUMBERS = 2**26  # of one space: a file from strangers must not fill the memory
_DTYPES = (
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
)


class SavedState(NamedTuple):
    """A complete saved state, and the identity of the envs whose state it holds."""

    tensors: Tensors
    envs: dict[str, Any]


def first_state(compiled: CompiledAgent, seed: int) -> TrainState:
    """The initial weights of training with this seed, without envs."""
    key = run_key(seed)
    algorithm, normaliser = compiled.begin(key)
    return TrainState(algorithm, normaliser, (), key)


def with_learnt(agent: Agent, begun: TrainState, known: TrainState) -> TrainState:
    """A started state with what another one has learnt, without the other's unfinished episodes."""
    own = to_tensors(begun.algorithm)
    theirs = to_tensors(known.algorithm)
    shared = {name: theirs[name] for name in own if name in theirs and theirs[name].shape == own[name].shape}
    algorithm = agent.algorithm.forget_open_episodes(from_tensors(begun.algorithm, own | shared))
    return begun._replace(algorithm=algorithm, normaliser=known.normaliser)


def check_spaces(owner: str, known: Spaces, found: Spaces) -> None:
    """UserError if a policy for the known spaces cannot act in the found ones."""
    for name, ours, theirs in (
        ("observation", known.observation, found.observation),
        ("action", known.action, found.action),
    ):
        if ours != theirs:
            raise UserError(f"{owner}: the env's {name} space {theirs} is not the model's, {ours}")


def parameters(agent: Agent, state: TrainState) -> dict[str, Tensors]:
    """`policy`: what acting needs; `policy.optimizer`: the rest of the algorithm's state."""
    rest = {name: value for name, value in to_tensors(state.algorithm).items() if not name.startswith("params/")}
    return {"policy": to_tensors(agent.policy(state)), "policy.optimizer": rest}


def with_parameters(agent: Agent, state: TrainState, parts: Mapping[str, Mapping[str, np.ndarray]]) -> TrainState:
    """The state with other parameters; RunError if names or shapes do not match."""
    unknown = [name for name in parts if name not in ("policy", "policy.optimizer")]
    if unknown:
        raise UserError(f"set_parameters: unknown part '{unknown[0]}': give 'policy' and perhaps 'policy.optimizer'")
    if "policy.optimizer" in parts:
        own = to_tensors(state.algorithm)
        params = {name: value for name, value in own.items() if name.startswith("params/")}
        state = state._replace(algorithm=from_tensors(state.algorithm, params | dict(parts["policy.optimizer"])))
    if "policy" in parts:
        policy = from_tensors(agent.policy(state), parts["policy"])
        algorithm = agent.algorithm.with_weights(state.algorithm, policy.weights)
        state = state._replace(algorithm=algorithm, normaliser=policy.normaliser)
    return state


def env_identity(setup: TrainingSetup) -> dict[str, Any]:
    """The engine and envs that a state belongs to: it can be restored only into the same ones."""
    recipe = setup.parts.recipe
    return {"engine": recipe.engine, "id": recipe.env.id, "kwargs": recipe.env.kwargs, "n_envs": recipe.n_envs}


def to_file(model: Model) -> tuple[Tensors, Tensors, dict[str, Any]]:
    """Policy, state and description of a model."""
    state = model.state
    setup = model._envs.current
    whole = model._call is None and setup is not None and setup.continues
    assert model._envs.spaces is not None
    source = model._envs.source
    tensors = setup.parts.program.save(state) if whole and setup else to_tensors(state._replace(groups=()))
    about = {
        "class": type(model).__name__,
        "arguments": model.values,
        "seed": model.seed,
        "resets": model._starts,
        "clock": (model._clock if model._call is None else model._call.clock)._asdict(),
        "n_envs": model.n_envs,
        "spaces": spaces_to_json(model._envs.spaces),
        "env": None if source is None or source.settings is None else _portable(source.settings),
        "envs_state_of": env_identity(setup) if whole and setup else None,
    }
    return to_tensors(model.agent.policy(state)), tensors, about


def _portable(settings: EnvSettings) -> dict[str, Any] | None:
    """The env's id and kwargs; None if they are not JSON values."""
    kwargs = settings.kwargs
    plain = all(value is None or isinstance(value, str | int | float | bool) for value in kwargs.values())
    return {"id": settings.id, "kwargs": kwargs} if plain else None


def from_file(cls: type[M], file: ModelFile, changes: dict[str, Any]) -> M:
    """A model with the saved state; `changes` override the saved arguments."""
    about = file.about
    if about.get("class") != cls.__name__:
        raise UserError(f"the file holds a {about.get('class')} model: load it with {about.get('class')}.load")
    fixed = [name for name in changes if name in _FIXED]
    if fixed:
        raise UserError(f"{cls.__name__}.load: {fixed[0]} belongs to the saved weights and cannot be changed")
    model = cls.__new__(cls)
    try:
        values = bind(cls.__name__, cls.ARGUMENTS, (), {**about["arguments"], **changes})
        model._init_from(plain_values(cls.__name__, values))
        model.seed = int(about["seed"]) if values["seed"] is None else model.seed
        model._envs.n_envs = int(about["n_envs"])
        model._starts = int(about["resets"])
        model._envs.spaces = spaces_from_json(about["spaces"])
        model._clock = Clock(**about["clock"])
        if about["env"] is not None:
            model._envs.source = saved_source(EnvSettings.model_validate(about["env"]), model.n_envs)
        envs = about["envs_state_of"]
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"the file's description is damaged: {type(error).__name__}: {error}") from error
    model._state = _read_state(model, file)
    if envs is not None:
        model._saved = SavedState(file.state, envs)
    return model


def _read_state(model: Model, file: ModelFile) -> TrainState:
    """The saved state without its envs, checked against the shapes that the description implies."""
    shapes = jax.eval_shape(model._act()[0].begin, run_key(0))
    # Zero-stride arrays: the description of an untrusted file may imply more memory than the file holds.
    template = jax.tree.map(lambda leaf: np.broadcast_to(np.zeros((), leaf.dtype), leaf.shape), shapes)
    parts, _ = split_tensors(file.state, ["groups/", "key"])
    rest = {name: value for name, value in file.state.items() if not name.startswith("groups/") and name != "key"}
    algorithm, normaliser = from_tensors({"algorithm": template[0], "normaliser": template[1]}, rest).values()
    key = jax.random.wrap_key_data(jnp.asarray(parts[1][""]))
    return TrainState(jax.tree.map(jnp.asarray, algorithm), jax.tree.map(jnp.asarray, normaliser), (), key)


class ModelFile(NamedTuple):
    """The content of a model file."""

    policy: dict[str, np.ndarray]
    state: dict[str, np.ndarray]
    about: dict[str, Any]


def with_suffix(path: str | Path) -> Path:
    """`ppo_cartpole` as `ppo_cartpole.zip`; a name with a suffix keeps it, as in SB3."""
    path = Path(path)
    return path if path.suffix else path.with_name(path.name + ".zip")


def write_model(target: str | Path | IO[bytes], policy: Arrays, state: Arrays, about: Mapping[str, Any]) -> None:
    """Write a model file atomically, creating its folders; an open binary file is written directly."""
    blobs = {POLICY: tensors.encode(policy), STATE: tensors.encode(state)}
    facts = {name: {"sha256": files.sha256(blob), "bytes": len(blob)} for name, blob in blobs.items()}
    blobs[ABOUT] = files.dump_json({"format": FORMAT, **about, "files": facts}).encode()
    if not isinstance(target, str | Path):
        _write(target, blobs)
        return
    path = with_suffix(target)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.atomic(path) as file:
            _write(file, blobs)
    except OSError as error:
        raise UserError(f"the model could not be saved to '{path}': {error.strerror}") from error


def _write(file: IO[bytes], blobs: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, blob in blobs.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), blob)


def read_model(source: str | Path | IO[bytes]) -> ModelFile:
    """Read and verify a saved model."""
    path: Any = source
    if isinstance(source, str | Path):
        path = Path(source) if Path(source).is_file() else with_suffix(source)
        if not path.is_file():
            raise UserError(f"there is no model '{path}'")
    try:
        with zipfile.ZipFile(path) as archive:
            about = _about(archive, str(path))
            policy, state = (_tensors(archive, name, about, str(path)) for name in (POLICY, STATE))
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError) as error:
        raise RunError(f"'{path}' is not a model file or damaged: {error}") from error
    return ModelFile(policy, state, about)


def _about(archive: zipfile.ZipFile, path: str) -> dict[str, Any]:
    if ABOUT not in archive.namelist():
        if "policy.pth" in archive.namelist():
            raise UserError(
                f"'{path}' was saved by Stable-Baselines3: it holds pickles, which are not read here. Train anew"
            )
        raise RunError(f"'{path}' is not a model file: it has no {ABOUT}")
    try:
        about = json.loads(_member(archive, ABOUT, MOST_JSON_BYTES, path))
        written = about["format"]
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise RunError(f"'{path}': {ABOUT} is damaged: {error}") from error
    if written != FORMAT:
        raise FormatError(f"'{path}' has format {written!r}, and this gymlab reads {FORMAT}: save it anew")
    return dict(about)


def _member(archive: zipfile.ZipFile, name: str, most: int, path: str) -> bytes:
    """One member, which must occur once and be uncompressed: a zip bomb is refused."""
    found = [info for info in archive.infolist() if info.filename == name]
    if len(found) != 1:
        raise RunError(f"'{path}' holds {name} {len(found)} times")
    info = found[0]
    stored = (
        info.compress_type == zipfile.ZIP_STORED and info.file_size == info.compress_size and not info.flag_bits & 1
    )
    if not stored or info.file_size > most:
        raise RunError(f"'{path}': {name} is compressed, encrypted or larger than {most} bytes: not read")
    with archive.open(info) as member:
        return member.read(info.file_size)


def _tensors(archive: zipfile.ZipFile, name: str, about: Mapping[str, Any], path: str) -> dict[str, np.ndarray]:
    blob = _member(archive, name, MOST_BYTES, path)
    try:
        expected = about["files"][name]["sha256"]
        if files.sha256(blob) != expected:
            raise RunError(f"'{path}' is damaged: {name} is not what was saved")
        return tensors.decode(blob)
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"'{path}' is damaged: {name}: {error}") from error


def spaces_to_json(found: Spaces) -> dict[str, Any]:
    """An env's spaces as JSON, so that a saved model can act without its env."""
    return {
        "observation": _space_to_json(found.observation),
        "action": _space_to_json(found.action),
        "masked": found.masked,
        "max_episode_steps": found.max_episode_steps,
    }


def spaces_from_json(data: Any) -> Spaces:
    """The inverse of `spaces_to_json`; RunError if the data are damaged."""
    try:
        return Spaces(
            _space_from_json(data["observation"]),
            _space_from_json(data["action"]),
            bool(data["masked"]),
            int(data["max_episode_steps"]),
        )
    except (KeyError, TypeError, ValueError, AssertionError, OverflowError, RecursionError) as error:
        raise RunError(f"the file's spaces are damaged: {error}") from error


def _space_to_json(space: Any) -> dict[str, Any]:
    if isinstance(space, spaces.Dict):
        return {"type": "Dict", "spaces": {name: _space_to_json(part) for name, part in space.spaces.items()}}
    if isinstance(space, spaces.Tuple):
        return {"type": "Tuple", "spaces": [_space_to_json(part) for part in space.spaces]}
    if isinstance(space, spaces.Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        return {"type": "MultiDiscrete", "nvec": space.nvec.tolist(), "start": space.start.tolist()}
    if isinstance(space, spaces.MultiBinary):
        return {"type": "MultiBinary", "shape": list(space.shape)}
    return {
        "type": "Box",
        "shape": list(space.shape),
        "dtype": str(space.dtype),
        "low": _bound(space.low),
        "high": _bound(space.high),
    }


def _bound(array: np.ndarray) -> Any:
    """One number where all are equal."""
    same = array.size > 0 and (array == array.flat[0]).all()
    return array.flat[0].item() if same else array.tolist()


def _space_from_json(data: Any) -> Any:
    kind = data["type"]
    if kind == "Dict":
        return spaces.Dict({str(name): _space_from_json(part) for name, part in data["spaces"].items()})
    if kind == "Tuple":
        return spaces.Tuple([_space_from_json(part) for part in data["spaces"]])
    if kind == "Discrete":
        return spaces.Discrete(_check_size(int(data["n"])), start=int(data["start"]))
    if kind == "MultiDiscrete":
        nvec = np.asarray(data["nvec"], np.int64)
        _check_size(int(nvec.sum()))
        return spaces.MultiDiscrete(nvec, start=np.asarray(data["start"], np.int64))
    shape = tuple(int(size) for size in data["shape"])
    _check_size(math.prod(shape))
    if kind == "MultiBinary":
        return spaces.MultiBinary(shape if len(shape) != 1 else shape[0])
    if kind != "Box" or data["dtype"] not in _DTYPES:
        raise ValueError(f"unknown space {kind!r} of {data.get('dtype')!r}")
    low, high = (np.broadcast_to(np.asarray(data[side], data["dtype"]), shape).copy() for side in ("low", "high"))
    return spaces.Box(low, high, shape, np.dtype(data["dtype"]).type)


def _check_size(numbers: int) -> int:
    if not 0 <= numbers <= _MOST_NUMBERS:
        raise ValueError(f"a space of {numbers} numbers")
    return numbers
