"""Reference scores: published ones with their sources, optima, and random policies. Reads `references.yaml`."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from pydantic import BaseModel, ConfigDict, Field

from gymlab.core.clock import Count
from gymlab.core.format import format_count


class Reference(BaseModel):
    """A published score."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    system: str
    algorithm: str
    score: float
    std: float | None = None
    steps: Count | None = None  # of training, in env steps
    on: str | None = None  # the version of the env, where it is not this one

    def __str__(self) -> str:
        spread = "" if self.std is None else f" ± {self.std:g}"
        where = "" if self.on is None else f" on {self.on}"
        steps = "" if self.steps is None else f" at {format_count(self.steps)}"
        return f"{self.system} {self.algorithm} {self.score:g}{spread}{steps}{where}"


class ScoreBound(BaseModel):
    """The optimum, or the score of a random policy."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    score: float
    source: str = "measured"
    std: float | None = None
    episodes: int | None = None
    note: str = ""


class References(BaseModel):
    """Contents of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    sources: dict[str, str]
    optima: dict[str, ScoreBound]
    random: dict[str, ScoreBound]
    scores: dict[str, tuple[Reference, ...]] = Field(default_factory=dict)

    def envs(self) -> list[str]:
        return sorted({*self.scores, *self.optima, *self.random})


@cache
def references() -> References:
    """The file, read once."""
    from gymlab.recipes.problems import Problems
    from gymlab.recipes.yaml_source import read_text

    text = files("gymlab.campaigns").joinpath("references.yaml").read_text(encoding="utf-8")
    values = read_text(text, "references.yaml", Problems()).to_data()
    return References.model_validate(values)


def published_scores(env: str, algorithm: str | None = None) -> list[Reference]:
    """Published scores on an env, best first; those of one algorithm where it is named."""
    found = [ref for ref in references().scores.get(env, ()) if algorithm is None or ref.algorithm == algorithm]
    return sorted(found, key=lambda ref: -ref.score)
