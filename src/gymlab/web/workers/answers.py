"""Answers of the worker processes, as JSON objects key by key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

from gymlab.core.types import Json

if TYPE_CHECKING:
    from gymlab.media.episode_trace import DistributionRecord, TraceRecord

Path = Sequence[str | int]  # keys and indices from an observation to one of its parts


class ComponentFacts(TypedDict):
    """A `Component` of an observation."""

    path: list[str | int]
    name: str
    kind: Literal["number", "choice", "picture", "many"]
    low: float | None
    high: float | None
    back: int | None


class ActionFacts(TypedDict, total=False):
    """An action space: `n` of a choice, `sizes` of several choices, `size` and bounds of numbers."""

    kind: Literal["choice", "choices", "numbers"]
    n: int
    sizes: list[int]
    size: int
    low: list[float]
    high: list[float]


# What the inspector knows before any episode; `lambda` is no name for an attribute.
InspectorFacts = TypedDict(
    "InspectorFacts",
    {
        "recipe": str,
        "checkpoints": list[str],
        "best": str | None,
        "last": str | None,
        "seed": int,
        "sampled": bool,
        "max_steps": int,
        "labels": list[str],
        "actions": ActionFacts,
        "components": list[ComponentFacts],
        "raw": list[ComponentFacts],
        "gamma": float,
        "lambda": float,
        "pictures": bool,
    },
)


class PlayedEpisode(TypedDict):
    """An episode that was played, and the files of its pictures."""

    rows: list[TraceRecord]
    ended: str
    checkpoint: str
    seed: int
    sampled: bool
    name: str
    env_files: list[str]
    seen_files: list[str]
    texts: list[str]


# How far an episode is; `return` is no name for an attribute.
EpisodeProgress = TypedDict("EpisodeProgress", {"steps": int, "return": float})


class PolicyOutput(TypedDict):
    """What the policy gives for an observation."""

    action: Json
    label: str
    probabilities: list[float]
    distribution: DistributionRecord
    value: float | None
    entropy: float | None


class AttributionAnswer(TypedDict):
    """Gradients in the shape of the observation, and the file of a heat map ("": none)."""

    policy: Json
    value: Json
    picture: str


class PlaygroundFacts(TypedDict):
    """A game that was begun: its hyperparameters and size."""

    values: dict[str, float]
    n_envs: int
    n_steps: int


N = float | None
PlaygroundRow = tuple[int, N, N, N, N, N, N]  # env_steps and the metrics that are shown


class PlaygroundReport(TypedDict):
    """Some updates of the playground."""

    updates: int
    env_steps: int
    rows: list[PlaygroundRow]
    moved: float
    compilations: int
    values: dict[str, float]


# An episode of the playground.
PlaygroundEpisode = TypedDict("PlaygroundEpisode", {"files": list[str], "return": float, "length": int})
