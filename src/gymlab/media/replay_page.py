"""Replay page of a run: one self-contained HTML file with recorded episodes and, for small envs, the policy live."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from importlib.resources import files as package_files
from pathlib import Path
from typing import Literal, TypedDict, get_args

import numpy as np
from gymnasium import spaces as gym_spaces

from gymlab.core.errors import GymlabError, UserError
from gymlab.core.format import format_count
from gymlab.core.types import Json, JsonObject
from gymlab.envs.make import make_env
from gymlab.envs.registry import resolve_id
from gymlab.envs.wrapper_stacks import evaluation_settings
from gymlab.media.episode_trace import read_csv, shortest_numbers
from gymlab.media.policy_player import action_labels
from gymlab.media.record_episode import record_missing, write_export
from gymlab.recipes.resolve import read_run_recipe
from gymlab.recipes.schema import Recipe
from gymlab.runs.checkpoints import load_checkpoint
from gymlab.runs.files import strict_json
from gymlab.runs.manifest import read_manifest
from gymlab.runs.paths import RunPaths
from gymlab.runs.records import StatusRecord
from gymlab.runs.status import read_status
from gymlab.runs.videos import Clip, of_kind, table_path

LIVE = ("CartPole-v0", "CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1", "Acrobot-v1")
MOST_EPISODES = 4
Column = Literal[
    "action",
    "label",
    "probability",
    "reward",
    "return_so_far",
    "return_to_go",
    "value",
    "advantage",
    "gae",
    "probabilities",
]
_COLUMNS: tuple[Column, ...] = get_args(Column)
_ACTIVATIONS = ("tanh", "relu", "gelu", "silu", "elu", "leaky_relu")
_EPS = 1e-8  # as in the normaliser


class RecordedEpisode(TypedDict):
    """A film and its step table, for the page."""

    fps: float
    stride: int
    frames: int
    size: list[int]
    picture: list[int]
    labels: list[str]
    length: int
    ended: str
    title: str
    film: str  # base64
    rows: dict[Column, list[Json]]


class LayerNumbers(TypedDict):
    """A linear layer."""

    weight: Json
    bias: Json


class LivePolicy(TypedDict, total=False):
    """What the page's own forward pass needs."""

    env: str
    activation: str
    actor: list[LayerNumbers]
    critic: list[LayerNumbers]
    normaliser: dict[str, Json] | None
    discrete: bool
    labels: list[str]
    low: list[float]
    high: list[float]


def export_html(paths: RunPaths, which: str, target: Path) -> list[str]:
    """Write the page of a run; what it contains, as phrases for the user."""
    recipe = read_run_recipe(paths.recipe)
    loaded = load_checkpoint(paths, which, with_state=False)
    contents = []
    episodes: list[RecordedEpisode] = []
    try:
        found = [clip for clip in record_missing(paths, recipe, [which]) if table_path(paths, clip.env_steps).is_file()]
        episodes = [recorded_episode(paths, clip) for clip in select_clips(found, loaded.info["clock"]["env_steps"])]
        contents.append(f"{len(episodes)} recorded {'episode' if len(episodes) == 1 else 'episodes'}")
    except GymlabError as error:
        contents.append(f"no recorded episodes ({error})")
    labels = episodes[0]["labels"] if episodes else _labels(recipe)
    live = live_policy(recipe, loaded.policy, labels)
    if live is not None:
        contents.append(f"the policy of checkpoint {loaded.path.name} live")
    if not episodes and live is None:
        raise UserError(
            f"there is nothing to show of {paths.run_id}: {contents[0]}, and {recipe.env.id} has no live page"
        )
    manifest = read_manifest(paths)
    run: dict[str, Json] = {"id": paths.run_id, "recipe": recipe.name, "seed": manifest.get("seed")}
    text = page_html({**run, "result": format_result(read_status(paths))}, episodes, live)
    write_export(target, text)
    return contents


def select_clips(found: list[Clip], main_steps: int) -> list[Clip]:
    """A few films for a page: that of the requested checkpoint, then the first, then some of those between."""
    main = [clip for clip in found if clip.env_steps == main_steps]
    first = [clip for clip in of_kind(found, "first") if clip not in main]
    rest = [clip for clip in found if clip not in main and clip not in first]
    middle = rest[:: max(1, -(-len(rest) // max(1, MOST_EPISODES - len(main) - len(first))))]
    return [*main, *first, *middle][:MOST_EPISODES]


def page_html(run: JsonObject, episodes: Sequence[RecordedEpisode], live: LivePolicy | None) -> str:
    """The text of the page."""
    from gymlab.core import __version__

    data = strict_json({"run": dict(run), "episodes": list(episodes), "live": live, "version": __version__})
    folder = package_files("gymlab.media")
    text = (folder / "page.html").read_text(encoding="utf-8")
    for mark, name in (("STYLE", "page.css"), ("LIVE", "live.js"), ("PAGE", "page.js")):
        text = text.replace(f"/*{mark}*/", (folder / name).read_text(encoding="utf-8"), 1)
    # `<` is escaped so that no text of a run can close the script element.
    return text.replace("/*DATA*/", data.replace("<", "\\u003c"), 1)


def recorded_episode(paths: RunPaths, clip: Clip) -> RecordedEpisode:
    """A film and its table for the page."""
    about = clip.about
    rows = read_csv(table_path(paths, clip.env_steps))
    steps = format_count(clip.env_steps, brief=True)
    return {
        "fps": about["fps"],
        "stride": about["stride"],
        "frames": about["frames"],
        "size": about["size"],
        "picture": about["picture"],
        "labels": about["labels"],
        "length": about["length"],
        "ended": about["ended"],
        "title": f"{', '.join(clip.kinds)}: {steps} env_steps, return {about['return']:.4g}",
        "film": base64.b64encode(clip.path.read_bytes()).decode(),
        "rows": {name: [row[name] for row in rows] for name in _COLUMNS},
    }


def live_policy(recipe: Recipe, policy: Mapping[str, np.ndarray], labels: Sequence[str]) -> LivePolicy | None:
    """Weights and settings for the page's own forward pass; None if it does not support the env or the network."""
    resolved = resolve_id(recipe.env.id)
    env = evaluation_settings(recipe.env)
    bare = not env.wrappers and not env.kwargs and not resolved.kwargs
    known = recipe.policy.encoder is None and recipe.policy.activation in _ACTIVATIONS
    if resolved.id not in LIVE or not bare or not known or not any("policy_head" in name for name in policy):
        return None
    made = make_env(env)
    space = made.action_space
    made.close()
    shared = not any(name.startswith("weights/value_trunk") for name in policy)
    known_page: LivePolicy = {
        "env": resolved.id,
        "activation": recipe.policy.activation,
        "actor": [*_layers(policy, "policy_trunk"), _linear(policy, "policy_head")],
        "critic": [*_layers(policy, "policy_trunk" if shared else "value_trunk"), _linear(policy, "value_head")],
        "normaliser": _normaliser(recipe, policy),
        "discrete": not isinstance(space, gym_spaces.Box),
        "labels": list(labels),
    }
    if isinstance(space, gym_spaces.Box):
        known_page |= {"low": space.low.ravel().tolist(), "high": space.high.ravel().tolist()}
    return known_page


def _layers(policy: Mapping[str, np.ndarray], trunk: str) -> list[LayerNumbers]:
    found = []
    place = 0
    while f"weights/{trunk}.layers.{place}.weight" in policy:
        found.append(_linear(policy, f"{trunk}.layers.{place}"))
        place += 1
    return found


def _linear(policy: Mapping[str, np.ndarray], name: str) -> LayerNumbers:
    weight, bias = (policy[f"weights/{name}.{part}"] for part in ("weight", "bias"))
    return {"weight": _float32_digits(weight), "bias": _float32_digits(bias)}


def _float32_digits(array: np.ndarray) -> Json:
    """Nested lists with the digits that a float32 needs, which halves the page."""
    if array.ndim > 1:
        return [_float32_digits(row) for row in array]
    return shortest_numbers(array.astype(np.float32))


def _normaliser(recipe: Recipe, policy: Mapping[str, np.ndarray]) -> dict[str, Json] | None:
    if not recipe.normalize.obs:
        return None
    mean = policy["normaliser/obs/mean"]
    var = policy["normaliser/obs/var"]
    return {"mean": mean.tolist(), "scale": np.sqrt(var + _EPS).tolist(), "clip": recipe.normalize.clip}


def format_result(status: StatusRecord) -> str:
    """The run's result on one line."""
    summary = status.get("summary")
    score = summary.get("score") if isinstance(summary, dict) else None
    parts = [str(status.get("status", ""))]
    if isinstance(score, int | float) and math.isfinite(score):
        parts.append(f"score {score:.5g}")
    if isinstance(summary, dict) and summary.get("solved"):
        parts.append("solved")
    return ", ".join(filter(None, parts))


def _labels(recipe: Recipe) -> tuple[str, ...]:
    env = make_env(recipe.env)
    try:
        return action_labels(env.action_space, recipe.env.actions, env)
    finally:
        env.close()
