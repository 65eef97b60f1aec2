"""A network layer by layer on a real batch: what comes out of each, and how many weights it has."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gymlab.core.types import Array, Masked, Tree
from gymlab.networks.actor_critic import NetworkTrace
from gymlab.networks.flat_network import Params


class LayerSummary(NamedTuple):
    """One layer, for one observation."""

    layer: str
    shape: tuple[int, ...]  # of what comes out, without the batch
    mean: float
    std: float
    parameters: int


def summarize_layers(seen: NetworkTrace, params: Params, obs: Tree) -> list[LayerSummary]:
    """What is seen, each layer's output from the encoder on, and the two heads. `obs` is one batch."""
    rows = [_row(f"observation{name}", leaf, 0) for name, leaf in _parts(obs.obs if isinstance(obs, Masked) else obs)]
    rows += [_row(layer, values, _weights(params, layer)) for layer, values in seen.layers.items()]
    rows.append(_row("policy_head", seen.outputs, _weights(params, "policy_head")))
    if "log_std" in params:
        rows.append(_row("log_std", params["log_std"][None], params["log_std"].size))
    rows.append(_row("value_head", seen.values[..., None], _weights(params, "value_head")))
    return rows


def _parts(obs: Tree, name: str = "") -> list[tuple[str, Array]]:
    if isinstance(obs, dict):
        return [part for key, inner in obs.items() for part in _parts(inner, f"{name}.{key}")]
    if isinstance(obs, tuple):
        return [part for i, inner in enumerate(obs) for part in _parts(inner, f"{name}.{i}")]
    return [(name, obs)]


def _row(layer: str, values: Array, parameters: int) -> LayerSummary:
    array = np.asarray(values, np.float64)
    return LayerSummary(layer, array.shape[1:], float(array.mean()), float(array.std()), parameters)


def _weights(params: Params, layer: str) -> int:
    """Weights below a layer's name; hidden layers are called by their place, encoders' by their own words."""
    trunk, _, place = layer.partition(".")
    prefix = f"{trunk}.layers.{place}." if place.isdigit() else f"{layer}."
    return sum(int(np.size(values)) for name, values in params.items() if _words(name).startswith(prefix))


def _words(name: str) -> str:
    """`parts.board.convs.0` of the parameters is called `board.conv0` among the layers."""
    name = name.replace(".parts.", ".")
    for many, one in (("convs", "conv"), ("stages", "stage")):
        name = name.replace(f".{many}.", f".{one}", 1) if f".{many}." in name else name
    return name.replace(".conv.", ".conv0.", 1)
