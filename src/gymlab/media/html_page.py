"""One self-contained web page of a run: recorded episodes to step through and, for small envs, the policy live."""

from __future__ import annotations

import base64
import csv
import json
import math
from collections.abc import Mapping, Sequence
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces as gym_spaces

from gymlab.core.format import format_count
from gymlab.envs.make import make_env
from gymlab.envs.registry import resolve_id
from gymlab.envs.wrapper_stacks import evaluation_settings
from gymlab.recipes.schema import Recipe
from gymlab.runs.files import strict_json
from gymlab.runs.films import Clip, table_path
from gymlab.runs.paths import RunPaths

LIVE = ("CartPole-v0", "CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1", "Acrobot-v1")
COLUMNS = ("action", "label", "probability", "reward", "return_so_far", "return_to_go", "value", "advantage", "gae")
_ACTIVATIONS = ("tanh", "relu", "gelu", "silu", "elu", "leaky_relu")
_EPS = 1e-8  # as in the normaliser


def page(run: Mapping[str, Any], episodes: Sequence[Mapping[str, Any]], live: Mapping[str, Any] | None) -> str:
    """The page's text."""
    from gymlab.core import __version__

    data = strict_json({"run": dict(run), "episodes": list(episodes), "live": live, "version": __version__})
    folder = package_files("gymlab.media")
    text = (folder / "page.html").read_text(encoding="utf-8")
    for mark, name in (("STYLE", "page.css"), ("LIVE", "live.js"), ("PAGE", "page.js")):
        text = text.replace(f"/*{mark}*/", (folder / name).read_text(encoding="utf-8"), 1)
    # Nothing a run says of itself can close the element it stands in.
    return text.replace("/*DATA*/", data.replace("<", "\\u003c"), 1)


def recorded(paths: RunPaths, clip: Clip) -> dict[str, Any]:
    """A film and its table for the page."""
    about = clip.about
    rows = read_table(table_path(paths, clip.env_steps))
    facts = {name: about[name] for name in ("fps", "stride", "frames", "size", "picture", "labels", "length", "ended")}
    steps = format_count(clip.env_steps, brief=True)
    return {
        **facts,
        "title": f"{', '.join(clip.kinds)}: {steps} env_steps, return {about['return']:.4g}",
        "film": base64.b64encode(clip.path.read_bytes()).decode(),
        "rows": {name: [row[name] for row in rows] for name in (*COLUMNS, "probabilities")},
    }


def read_table(path: Path) -> list[dict[str, Any]]:
    """A step table as it was written: numbers and lists by column; None for an empty cell."""
    with path.open(encoding="utf-8", newline="") as file:
        return [{name: _value(name, cell) for name, cell in row.items()} for row in csv.DictReader(file)]


def _value(name: str, cell: str) -> Any:
    if name == "label":
        return cell
    if not cell:
        return None
    try:
        return json.loads(cell)
    except ValueError:  # a large observation is named, not shown
        return cell


def live_policy(recipe: Recipe, policy: Mapping[str, np.ndarray], labels: Sequence[str]) -> dict[str, Any] | None:
    """All that the page needs to run a policy by itself; None where it does not know the env or the network."""
    resolved = resolve_id(recipe.env.id)
    env = evaluation_settings(recipe.env)
    plain = not env.wrappers and not env.kwargs and not resolved.kwargs
    known = recipe.policy.encoder is None and recipe.policy.activation in _ACTIVATIONS
    if resolved.id not in LIVE or not plain or not known or not any("policy_head" in name for name in policy):
        return None
    made = make_env(env)
    space: Any = made.action_space
    made.close()
    shared = not any(name.startswith("weights/value_trunk") for name in policy)
    box = isinstance(space, gym_spaces.Box)
    return {
        "env": resolved.id,
        "activation": recipe.policy.activation,
        "actor": [*_layers(policy, "policy_trunk"), _linear(policy, "policy_head")],
        "critic": [*_layers(policy, "policy_trunk" if shared else "value_trunk"), _linear(policy, "value_head")],
        "normaliser": _normaliser(recipe, policy),
        "discrete": not box,
        "labels": list(labels),
        **({"low": space.low.ravel().tolist(), "high": space.high.ravel().tolist()} if box else {}),
    }


def _layers(policy: Mapping[str, np.ndarray], trunk: str) -> list[dict[str, Any]]:
    found = []
    place = 0
    while f"weights/{trunk}.layers.{place}.weight" in policy:
        found.append(_linear(policy, f"{trunk}.layers.{place}"))
        place += 1
    return found


def _linear(policy: Mapping[str, np.ndarray], name: str) -> dict[str, Any]:
    weight, bias = (policy[f"weights/{name}.{part}"] for part in ("weight", "bias"))
    return {"weight": _short(weight), "bias": _short(bias)}


def _short(array: np.ndarray) -> Any:
    """Numbers in as few digits as tell their 32 bits apart: half the page."""
    return [_short(row) for row in array] if array.ndim > 1 else [float(str(x)) for x in array.astype(np.float32)]


def _normaliser(recipe: Recipe, policy: Mapping[str, np.ndarray]) -> dict[str, Any] | None:
    if not recipe.normalize.obs:
        return None
    mean = policy["normaliser/obs/mean"]
    var = policy["normaliser/obs/var"]
    return {"mean": mean.tolist(), "scale": np.sqrt(var + _EPS).tolist(), "clip": recipe.normalize.clip}


def result_told(status: Mapping[str, Any]) -> str:
    """The run's result on one line."""
    summary = status.get("summary")
    best = summary.get("best_return") if isinstance(summary, dict) else None
    told = [str(status.get("status", ""))]
    if isinstance(best, int | float) and math.isfinite(best):
        told.append(f"best evaluation {best:.5g}")
    if isinstance(summary, dict) and summary.get("solved"):
        told.append("solved")
    return ", ".join(filter(None, told))
