"""Trace of one episode: a row per step with observation, action, reward and value, written as CSV and as JSON.

The CSV beside a checkpoint, the replay page and the inspector all show these rows.
"""

from __future__ import annotations

import csv
import io
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict, cast

import numpy as np

from gymlab.core.types import Array, Json, Tree

LARGEST_ARRAY = 64  # numbers of an observation; a larger one is replaced by its shape and checksum

_NAN = math.nan


class DistributionRecord(TypedDict, total=False):
    """Parameters of a distribution beside the probabilities."""

    mean: list[float]
    std: list[float]
    choices: list[list[float]]


class TraceRecord(TypedDict):
    """A `TraceRow` as read back from CSV or JSON: None where unknown."""

    step: int
    frame: int
    observation: Json
    action: Json
    label: str
    probability: float | None
    reward: float
    return_so_far: float
    return_to_go: float | None
    value: float | None
    baseline: float | None
    advantage: float | None
    gae: float | None
    probabilities: list[float]
    distribution: DistributionRecord
    log_prob: float | None
    entropy: float | None
    raw: Json
    network_input: Json
    mask: list[bool] | None
    train_reward: float | None
    components: dict[str, float]
    terminated: bool
    truncated: bool
    td_error: float | None


class TraceRow(NamedTuple):
    """One step. Floats are NaN where unknown."""

    step: int
    frame: int  # of the film, that shows the state acted on
    observation: Tree  # as the policy gets it, before normalising
    action: Array  # as the env gets it
    label: str
    probability: float  # of the action; its density where actions are continuous
    reward: float  # the env's own
    return_so_far: float  # the env's own rewards, this one included
    return_to_go: float  # discounted training rewards; a cut episode ends with the value of its successor
    value: float
    baseline: float  # what the algorithm compares a return with
    advantage: float  # return_to_go - baseline
    gae: float
    probabilities: tuple[float, ...]  # of every action, where there are finitely many
    distribution: dict[str, Json] = {}  # noqa: RUF012 - its other parameters: mean and std, or each choice
    log_prob: float = _NAN  # of the action
    entropy: float = _NAN  # of the distribution, in nats
    raw: Tree | None = None  # the observation as the env gives it; None: no transform changes it
    network_input: Tree | None = None  # the observation as the network gets it; None: nothing is normalised
    mask: Array | None = None  # which actions are legal, if the env gives a mask
    train_reward: float = _NAN  # the training reward: shaped, clipped, normalised
    components: dict[str, float] = {}  # noqa: RUF012 - named parts of the reward, before normalising
    terminated: bool = False  # also where a lost life ends the training episode
    truncated: bool = False
    td_error: float = _NAN  # GAE with lambda 0


COLUMNS = TraceRow._fields


class DecisionStats(NamedTuple):
    """The optional columns of a decision: see the columns of these names."""

    distribution: dict[str, Json] = {}  # noqa: RUF012
    log_prob: float = _NAN
    entropy: float = _NAN
    raw: Tree | None = None
    network_input: Tree | None = None
    mask: Array | None = None


class TraceDecision(NamedTuple):
    """An action that was chosen but not yet carried out."""

    step: int
    observation: Tree
    action: Array
    label: str
    probability: float
    probabilities: tuple[float, ...]
    value: float
    return_so_far: float  # before this step
    stats: DecisionStats = DecisionStats()


class EpisodeTrace(NamedTuple):
    """The rows of one episode."""

    rows: list[TraceRow]
    ended: str  # terminated, truncated, or cut by a limit on steps
    seed: int

    @property
    def total(self) -> float:
        return self.rows[-1].return_so_far if self.rows else 0.0


def action_label(choice: Array, labels: Sequence[str]) -> str:
    """The name of a discrete choice (counted from 0); numbers for any other action."""
    if choice.ndim == 0 and choice.dtype.kind in "iu":
        return labels[int(choice)] if int(choice) < len(labels) else str(int(choice))
    return " ".join(f"{number:.3g}" for number in choice.ravel())


def to_csv(rows: Sequence[TraceRow]) -> str:
    """The rows as text, every number exact; structured cells are JSON, unknown ones empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([_to_cell(value) for value in row] for row in rows)
    return out.getvalue()


def read_csv(path: Path) -> list[TraceRecord]:
    """The records of a file that `to_csv` wrote: numbers and lists by column, None for an empty cell."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [{name: _parse_cell(name, cell) for name, cell in row.items()} for row in csv.DictReader(file)]
    return cast("list[TraceRecord]", rows)


def to_record(row: TraceRow) -> TraceRecord:
    """A row as JSON values; what is unknown is null."""
    values = {name: to_json(value) for name, value in row._asdict().items()}
    known = {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in values.items()}
    return cast("TraceRecord", known)


def to_json(value: object) -> Json:
    """Arrays as lists, large arrays as their shape and checksum."""
    if isinstance(value, dict):
        return {key: to_json(part) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(part) for part in value]
    if not isinstance(value, np.ndarray):
        return cast("Json", value)
    if value.size > LARGEST_ARRAY:
        shape = ",".join(map(str, value.shape))
        return f"{value.dtype}[{shape}] {zlib.crc32(value.tobytes()):08x}"
    plain: Json = np.array(shortest_numbers(value), object).reshape(value.shape).tolist()
    return plain


def distribution_record(parameters: Mapping[str, Tree]) -> DistributionRecord:
    return cast("DistributionRecord", {name: to_json(value) for name, value in parameters.items()})


def shortest_numbers(array: np.ndarray) -> list[float]:
    """The flat array as numbers with the fewest digits that read back to the same value in its own precision."""
    flat = array.ravel()
    return [float(str(x)) for x in flat] if flat.dtype.kind == "f" else flat.tolist()


def _to_cell(value: object) -> int | str:
    """A value as CSV has it: structured values as JSON, unknown ones empty."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | str):
        return value
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(value)
    json_value = to_json(value)
    return json_value if isinstance(json_value, str) else json.dumps(json_value)


def _parse_cell(name: str, cell: str) -> Json:
    if name == "label":
        return cell
    if not cell:
        return None
    try:
        value: Json = json.loads(cell)
        return value
    except ValueError:  # shape and checksum of a large observation
        return cell
